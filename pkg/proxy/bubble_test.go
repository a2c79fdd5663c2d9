// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// bubble is a proxy with members in a bubble of package synctest, where time passes when nobody has anything else to do:
// what takes seconds takes no time, and it takes exactly as long as it should. Members are reached through memory, for a
// bubble must not wait for the world outside.
type bubble struct {
	*proxy.Proxy
	members map[string]*scripted

	// blocked is the member to which no connection comes about.
	blocked atomic.Value

	mu    sync.Mutex
	conns []*icyConn
}

// icyConn is a connection to a member that can hang, alone: what is sent is lost, and nothing comes any more.
type icyConn struct {
	net.Conn
	member string
	frozen atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (c *icyConn) Write(p []byte) (int, error) {
	if c.frozen.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *icyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.frozen.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *icyConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// connections are all that were made to members so far.
func (b *bubble) connections() []*icyConn {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.conns)
}

// inBubble runs test in a bubble with members of these names.
func inBubble(t *testing.T, o proxy.Options, names []string, test func(t *testing.T, b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{members: make(map[string]*scripted)}
		listeners, members := make(map[string]*bufconn.Listener), b.members
		for _, name := range names {
			l := bufconn.Listen(64 << 10)
			m := &scripted{script: obliging, Member: shard.Member{Name: name, UID: name}}
			m.serveOn(l, name)
			defer m.kill()
			listeners[name], members[name] = l, m
		}
		o.DialOptions = append(o.DialOptions,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				if b.blocked.Load() == addr {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				conn, err := listeners[addr].DialContext(ctx)
				if err != nil {
					return nil, err
				}
				icy := &icyConn{Conn: conn, member: addr, closed: make(chan struct{})}
				b.mu.Lock()
				defer b.mu.Unlock()
				b.conns = append(b.conns, icy)
				return icy, nil
			}),
		)
		if o.ListingInterval == 0 {
			o.ListingInterval = -1
		}
		p, err := proxy.New(o)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); _ = p.Run(ctx) }()
		defer func() { cancel(); <-done }()
		p.SetMembers(describe(members))
		b.Proxy = p
		test(t, b)
	})
}

// settled has the members answer, and returns a name that the ring gives to one of them, once all has gone well for a while.
func (b *bubble) settled(t *testing.T, member string) string {
	t.Helper()
	answers(b.members)
	name := b.nameAt(t, member)
	time.Sleep(10 * time.Second) //nolint:forbidigo // takes no time in a bubble
	return name
}

// state is what the proxy makes of a member when all that is under way has been done.
func (b *bubble) state(name string) proxy.State {
	synctest.Wait()
	for _, m := range b.Members() {
		if m.Name == name {
			return m.State
		}
	}
	return ""
}

// register makes one call and returns the error.
func (b *bubble) register(ctx context.Context, name string) error {
	_, err := b.NetworkServiceEndpointRegistryServer().Register(ctx, &registry.NetworkServiceEndpoint{Name: name})
	return err
}

// nameAt returns a name that the ring gives to member.
func (b *bubble) nameAt(t *testing.T, member string) string {
	t.Helper()
	for _, name := range namesOf("name", 10_000) {
		if route, ok := b.Locate(shard.NSEKey(name)); ok && route.Member == member {
			return name
		}
	}
	require.Fail(t, "no name found")
	return ""
}
