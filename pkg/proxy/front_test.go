// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	// patience is how long tests wait for what has to come.
	patience = 30 * time.Second
	// tick is how often they look.
	tick = 10 * time.Millisecond
)

// front is a proxy behind a gRPC server, and a connection to it.
type front struct {
	*proxy.Proxy
	addr string
	cc   *grpc.ClientConn
	// stop ends the proxy's Run and waits for it.
	stop func()
}

func startFront(tb testing.TB, o proxy.Options, members ...shard.Member) *front {
	tb.Helper()
	o.DialOptions = append(o.DialOptions, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if o.Log == nil {
		o.Log = zaptest.NewLogger(tb)
	}
	// Without a word about them there are no probes and there is no directory: what a member is asked is then what the
	// test asks, and nobody else waits for the clock.
	if o.ProbeInterval == 0 {
		o.ProbeInterval = -1
	}
	if o.ListingInterval == 0 {
		o.ListingInterval = -1
	}
	p, err := proxy.New(o)
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(ctx) }()
	stop := sync.OnceFunc(func() { cancel(); <-done })

	s := grpc.NewServer(proxy.ServerOptions()...)
	p.Register(s, health.NewServer())
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	go func() { _ = s.Serve(l) }()
	f := &front{Proxy: p, addr: l.Addr().String(), stop: stop}
	tb.Cleanup(func() { stop(); s.Stop() })
	f.cc = f.dial(tb)
	p.SetMembers(members)
	return f
}

// dial returns a connection of its own, with limits so high that it is never the client who minds.
func (f *front) dial(tb testing.TB, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	return dial(tb, f.addr, opts...)
}

func dial(tb testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	const noLimit = 1 << 30
	cc, err := grpc.NewClient(addr, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithMaxHeaderListSize(noLimit),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(noLimit), grpc.MaxCallSendMsgSize(noLimit)),
	}, opts...)...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = cc.Close() })
	return cc
}

// holder is the member that calls about name go to.
func (f *front) holder(tb testing.TB, key shard.Key) string {
	tb.Helper()
	route, ok := f.Locate(key)
	require.True(tb, ok)
	return route.Member
}

// nameAt returns a name that the ring of the front gives to member.
func (f *front) nameAt(tb testing.TB, fl flavour, member, prefix string) string {
	tb.Helper()
	for i := range 10_000 {
		name := prefix + "-" + time.Duration(i).String()
		if f.holder(tb, fl.key(name)) == member {
			return name
		}
	}
	require.Fail(tb, "no name found", "member %s", member)
	return ""
}

// within is a context that ends with the test, or after patience.
func within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// await returns what comes from ch.
func await[T any](tb testing.TB, ch <-chan T, what string) T {
	tb.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		require.FailNow(tb, "waited in vain", what)
		panic("unreachable")
	}
}

func requireCode(tb testing.TB, code codes.Code, err error) {
	tb.Helper()
	require.Equal(tb, code, status.Code(err), "%v", err)
}
