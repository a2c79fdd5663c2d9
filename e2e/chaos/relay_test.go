// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// relay passes TCP connections on to the first of its targets that takes them. In front of a replica it is the network,
// which can swallow what is sent either way without closing anything; in front of several it is a Service's address.
type relay struct {
	listener net.Listener
	ctx      context.Context //nolint:containedctx // it ends with the relay
	group    sync.WaitGroup
	targets  atomic.Pointer[func() []string]
	// swallowing is set while nothing gets through.
	swallowing atomic.Bool

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// newRelay starts a relay without targets, and ends it with the test.
func newRelay(tb testing.TB) *relay {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &relay{listener: listener, ctx: ctx, conns: make(map[net.Conn]struct{})}
	r.setTargets(func() []string { return nil })
	r.group.Go(r.accept)
	tb.Cleanup(func() {
		cancel()
		_ = listener.Close()
		r.reset()
		r.group.Wait()
	})
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

// setTargets says where connections go; it is asked for each.
func (r *relay) setTargets(targets func() []string) { r.targets.Store(&targets) }

// blackhole swallows, from now on, what is sent either way; new connections are taken and hear nothing.
func (r *relay) blackhole() { r.swallowing.Store(true) }

// restore ends a blackhole. The connections of before are lost, as their bytes are.
func (r *relay) restore() {
	r.swallowing.Store(false)
	r.reset()
}

// reset closes all connections.
func (r *relay) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.group.Go(func() { r.pass(client) })
	}
}

// pass serves one connection. Nobody there means that it is reset, as a host does where nobody listens.
func (r *relay) pass(client net.Conn) {
	defer r.track(client)()
	var server net.Conn
	for _, target := range (*r.targets.Load())() {
		dialer := net.Dialer{Timeout: time.Second}
		var err error
		if server, err = dialer.DialContext(r.ctx, "tcp", target); err == nil {
			break
		}
		server = nil
	}
	if server == nil {
		if tcp, ok := client.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		return
	}
	defer r.track(server)()
	var both sync.WaitGroup
	both.Go(func() { r.copy(server, client) })
	r.copy(client, server)
	both.Wait()
}

// track has c closed by reset, and returns what ends that and closes it.
func (r *relay) track(c net.Conn) (end func()) {
	r.mu.Lock()
	r.conns[c] = struct{}{}
	r.mu.Unlock()
	// The relay may have ended in between.
	if r.ctx.Err() != nil {
		_ = c.Close()
	}
	return func() {
		_ = c.Close()
		r.mu.Lock()
		delete(r.conns, c)
		r.mu.Unlock()
	}
}

// copy copies until one side ends, and then ends both. While bytes are swallowed an end does not get through either.
func (r *relay) copy(to, from net.Conn) {
	buffer := make([]byte, 16<<10)
	holed := false // what has lost a byte must never go on
	for {
		n, err := from.Read(buffer)
		holed = holed || r.swallowing.Load()
		if n > 0 && !holed {
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err == nil {
			continue
		}
		if holed && errors.Is(err, io.EOF) {
			return // restore closes the other side
		}
		break
	}
	_ = to.Close()
	_ = from.Close()
}
