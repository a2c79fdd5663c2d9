// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// conns are connections to one member that are made, and replaced, together. What goes over them holds them meanwhile;
// when they have been replaced and nothing holds them any more, they are closed.
type conns struct {
	list []*grpc.ClientConn
	// hung are those of the list that do not work any more, though they are not broken.
	hung []atomic.Bool
	// turn spreads over the connections what has no key.
	turn atomic.Uint32
	// holds counts who holds them, the member included while they are its own. Once it is zero it stays so.
	holds atomic.Int64
	// released is closed when it is zero, replaced when the member has others.
	released, replaced chan struct{}
	// born is when they replaced others; zero for those that a member began with.
	born time.Time
}

// newConns prepares n connections to m, held once; it does not connect.
func newConns(m *shard.Member, n int, dialOptions []grpc.DialOption) (*conns, error) {
	c := &conns{hung: make([]atomic.Bool, n), released: make(chan struct{}), replaced: make(chan struct{})}
	c.holds.Store(1)
	for range n {
		conn, err := dial(m.Addrs, dialOptions)
		if err != nil {
			c.close()
			return nil, fmt.Errorf("prepare a connection to member %q at %v: %w", m.Name, m.Addrs, err)
		}
		c.list = append(c.list, conn)
	}
	return c, nil
}

// hold keeps the connections open until they are released. It is false if they have been replaced and are closed.
func (c *conns) hold() bool {
	for {
		n := c.holds.Load()
		if n == 0 {
			return false
		}
		if c.holds.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (c *conns) release() {
	if c.holds.Add(-1) == 0 {
		close(c.released)
	}
}

// of gives calls of one key one connection, so that they reach the member in the order in which they were sent.
func (c *conns) of(key shard.Key) *grpc.ClientConn {
	return c.list[xxhash.Sum64String(key.Name)%uint64(len(c.list))]
}

// next gives each of them in turn.
func (c *conns) next() *grpc.ClientConn {
	return c.list[c.turn.Add(1)%uint32(len(c.list))]
}

// used are the first n, and the others that are connected or to be connected.
func (c *conns) used(n int) []*grpc.ClientConn {
	used := slices.Clone(c.list[:n])
	for _, conn := range c.list[n:] {
		if conn.GetState() != connectivity.Idle {
			used = append(used, conn)
		}
	}
	return used
}

// hang notes that conn hangs. It is false if that is known, or if it is none of these.
func (c *conns) hang(conn *grpc.ClientConn) bool {
	i := slices.Index(c.list, conn)
	return i >= 0 && !c.hung[i].Swap(true)
}

// hangs says whether one of them does.
func (c *conns) hangs() bool {
	for i := range c.hung {
		if c.hung[i].Load() {
			return true
		}
	}
	return false
}

// cut ends those that hang, and with them all that waits there.
func (c *conns) cut() {
	for i, conn := range c.list {
		if c.hung[i].Load() {
			_ = conn.Close() // the only error is that it was closed before
		}
	}
}

// ready connects them all and waits until they are. It is false if ctx ends before.
func (c *conns) ready(ctx context.Context) bool {
	for _, conn := range c.list {
		conn.Connect()
	}
	return !slices.ContainsFunc(c.list, func(conn *grpc.ClientConn) bool {
		for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
			if state == connectivity.Idle {
				conn.Connect()
			}
			if !conn.WaitForStateChange(ctx, state) {
				return true
			}
		}
		return false
	})
}

// close ends them, and with them all that goes over them.
func (c *conns) close() {
	for _, conn := range c.list {
		_ = conn.Close() // the only error is that it was closed before
	}
}

// current is where a member has the connections that it uses now. What takes them takes no lock.
type current struct{ atomic.Pointer[conns] }

// hold returns the connections, held.
func (c *current) hold() *conns {
	for {
		if now := c.Load(); now.hold() {
			return now
		}
		// They were replaced in between.
	}
}
