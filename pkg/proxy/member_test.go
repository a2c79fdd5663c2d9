// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/networkservicemesh/registry-lb/internal/loopback"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// call is one call that a scripted member was asked to answer.
type call struct {
	grpc.ServerStream
	flavour flavour
	method  string
	request proto.Message
}

func (c *call) name() string { return nameOf(c.request) }

func (c *call) isWatch() bool { return c.method == "Find" && isWatch(c.request) }

// untilDone blocks until the caller has gone.
func (c *call) untilDone() error {
	<-c.Context().Done()
	return status.FromContextError(c.Context().Err()).Err()
}

// script is how a scripted member answers.
type script func(c *call) error

// obliging answers as a registry without content does.
func obliging(c *call) error {
	switch {
	case c.method == "Register":
		return c.SendMsg(c.request)
	case c.method == "Unregister":
		return c.SendMsg(new(emptypb.Empty))
	case c.isWatch():
		if err := c.SendHeader(nil); err != nil {
			return err
		}
		return c.untilDone()
	default:
		return nil
	}
}

// scripted is a member whose answers a test sets.
type scripted struct {
	shard.Member

	mu     sync.Mutex
	script script
	// own are the answers to what registry-lb asks for itself, by purpose.
	own    map[string]script
	asked  int
	server *grpc.Server
	conns  *connections
}

// startScripted starts a member that is obliging until it is told otherwise.
func startScripted(tb testing.TB, name string) *scripted {
	tb.Helper()
	m := &scripted{script: obliging, Member: shard.Member{Name: name, UID: name + "-uid"}}
	m.serve(tb, loopback.Address()) // the port of one that was killed must not be given to another
	tb.Cleanup(m.kill)
	return m
}

// restart makes a member that was killed come back at the same address.
func (m *scripted) restart(tb testing.TB) {
	tb.Helper()
	m.serve(tb, m.Addrs[0])
}

// startScripteds starts several.
func startScripteds(tb testing.TB, names ...string) map[string]*scripted {
	tb.Helper()
	members := make(map[string]*scripted, len(names))
	for _, name := range names {
		members[name] = startScripted(tb, name)
	}
	return members
}

// describe returns members as their source would.
func describe(members map[string]*scripted) []shard.Member {
	described := make([]shard.Member, 0, len(members))
	for _, m := range members {
		described = append(described, m.Member)
	}
	return described
}

func (m *scripted) serve(tb testing.TB, addr string) {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	require.NoError(tb, err)
	m.serveOn(l, l.Addr().String())
}

func (m *scripted) serveOn(l net.Listener, addr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Addrs = []string{addr}
	m.conns = &connections{Listener: l}
	const noLimit = 1 << 30
	m.server = grpc.NewServer(grpc.UnknownServiceHandler(m.answer), grpc.MaxRecvMsgSize(noLimit), grpc.MaxSendMsgSize(noLimit))
	go func(s *grpc.Server, l net.Listener) { _ = s.Serve(l) }(m.server, m.conns)
}

// answer is the handler of all methods.
func (m *scripted) answer(_ any, stream grpc.ServerStream) error {
	fullMethod, _ := grpc.MethodFromServerStream(stream)
	c := &call{ServerStream: stream}
	if purpose := metadata.ValueFromIncomingContext(stream.Context(), "registry-lb-purpose"); len(purpose) > 0 {
		return m.answerOwn(purpose[0], c, fullMethod)
	}
	if err := c.receive(fullMethod); err != nil {
		return err
	}
	m.mu.Lock()
	answer := m.script
	m.asked++
	m.mu.Unlock()
	return answer(c)
}

// receive reads the request.
func (c *call) receive(fullMethod string) error {
	c.flavour, c.method = flavourOf(fullMethod)
	c.request = c.flavour.emptyItem()
	if c.method == "Find" {
		c.request = c.flavour.emptyQuery()
	}
	return c.RecvMsg(c.request)
}

// What registry-lb asks members for itself.
const (
	probes       = "probe"
	directory    = "directory"
	introduction = "introduction"
)

// answerOwn answers what registry-lb asks for itself: without a script for it as a registry without content does that
// does not know the health service, as old ones don't.
func (m *scripted) answerOwn(purpose string, c *call, fullMethod string) error {
	m.mu.Lock()
	answer := m.own[purpose]
	m.mu.Unlock()
	if purpose == probes {
		if answer == nil {
			return status.Error(codes.Unimplemented, "old registries do not know the health service")
		}
		if err := c.RecvMsg(new(emptypb.Empty)); err != nil { // the question has no content that matters
			return err
		}
		return answer(c)
	}
	if err := c.receive(fullMethod); err != nil {
		return err
	}
	if answer == nil {
		answer = obliging
	}
	return answer(c)
}

// setOwn sets the script for what registry-lb asks for itself.
func (m *scripted) setOwn(purpose string, s script) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.own == nil {
		m.own = make(map[string]script)
	}
	m.own[purpose] = s
}

// set replaces the script.
func (m *scripted) set(s script) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script = s
}

// calls returns how often the member was called.
func (m *scripted) calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

// kill ends the process, as it were: the address refuses connections.
func (m *scripted) kill() {
	m.mu.Lock()
	server := m.server
	m.mu.Unlock()
	server.Stop()
}

// reset breaks the connections and goes on listening.
func (m *scripted) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns.reset()
}

// dials returns how many connections were accepted so far.
func (m *scripted) dials() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conns.accepted()
}

// connections is a listener that knows what it has accepted.
type connections struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *connections) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return c, nil
}

func (l *connections) accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

func (l *connections) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

// headless is a stream whose header goes out with the first message only.
type headless struct {
	grpc.ServerStream
}

func (headless) SendHeader(metadata.MD) error { return nil }
