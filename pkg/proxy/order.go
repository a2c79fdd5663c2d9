// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// orderShards is how many locks the calls in flight are spread over.
const orderShards = 256

// order keeps two calls about one key from being in flight at two members at once (guarantee G3). Calls to one member
// go side by side: they use one connection, and the member has a queue of its own for each NSE. A call to another
// member, or to the same one over connections that have replaced others, waits until those in flight have ended. Keys
// without a call in flight cost nothing.
type order struct {
	shards [orderShards]orderShard
}

type orderShard struct {
	mu    sync.Mutex
	lanes map[shard.Key]*lane
	// spare is a lane for the next key, so that a call that meets no other one allocates none.
	spare *lane
}

// lane is where the calls about one key are in flight.
type lane struct {
	conns *conns
	calls int
	// free is closed when the last of the calls has ended, if anybody waits for it.
	free chan struct{}
}

func newOrder() *order {
	o := new(order)
	for i := range o.shards {
		o.shards[i].lanes = make(map[shard.Key]*lane)
	}
	return o
}

func (o *order) shard(key shard.Key) *orderShard {
	return &o.shards[xxhash.Sum64String(key.Name)%orderShards]
}

// enter notes a call about key over c. If others are in flight elsewhere it notes nothing and returns what is closed when
// they have ended; then the caller has to look where the key goes now, and try again.
func (o *order) enter(key shard.Key, c *conns) (wait <-chan struct{}) {
	s := o.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[key]
	switch {
	case l == nil:
		if l = s.spare; l == nil {
			l = new(lane)
		}
		s.spare = nil
		l.conns = c
		s.lanes[key] = l
	case l.conns != c:
		if l.free == nil {
			l.free = make(chan struct{})
		}
		return l.free
	}
	l.calls++
	return nil
}

// leave notes the end of a call that entered.
func (o *order) leave(key shard.Key) {
	s := o.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[key]
	l.calls--
	if l.calls > 0 {
		return
	}
	delete(s.lanes, key)
	if l.free != nil {
		close(l.free)
	}
	*l = lane{}
	s.spare = l
}

// await blocks until wait is closed, and returns an error if ctx ends before.
func await(ctx context.Context, wait <-chan struct{}) error {
	select {
	case <-wait:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
