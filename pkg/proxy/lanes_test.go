// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// lanes is how many keys an order knows.
func (o *order) lanes() int {
	n := 0
	for i := range o.shards {
		n += len(o.shards[i].lanes)
	}
	return n
}

// TestLanes compares an order with a model: who is in flight where, and who was told to wait for what.
func TestLanes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		members := []*conns{new(conns), new(conns), new(conns)}
		keys := []shard.Key{shard.NSEKey("one"), shard.NSKey("one"), shard.NSEKey("two")}
		o := newOrder()
		at := make(map[shard.Key]*conns)
		calls := make(map[shard.Key]int)
		waits := make(map[shard.Key][]<-chan struct{})
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(t *rapid.T) {
				key, m := rapid.SampledFrom(keys).Draw(t, "key"), rapid.SampledFrom(members).Draw(t, "member")
				wait := o.enter(key, m)
				if calls[key] > 0 && at[key] != m {
					require.NotNil(t, wait)
					waits[key] = append(waits[key], wait)
					return
				}
				require.Nil(t, wait)
				at[key] = m
				calls[key]++
			},
			"leave": func(t *rapid.T) {
				key := rapid.SampledFrom(keys).Draw(t, "key")
				if calls[key] == 0 {
					return
				}
				o.leave(key)
				calls[key]--
				if calls[key] == 0 {
					for _, wait := range waits[key] {
						require.NoError(t, await(context.Background(), wait))
					}
					delete(waits, key)
				}
			},
			"": func(t *rapid.T) {
				busy := 0
				for _, key := range keys {
					if calls[key] > 0 {
						busy++
					}
					for _, wait := range waits[key] {
						select {
						case <-wait:
							t.Fatal("a call may go on while another one is in flight elsewhere")
						default:
						}
					}
				}
				require.Equal(t, busy, o.lanes(), "keys without a call in flight cost nothing")
			},
		})
	})
}

func TestEnteringAFreeLaneAllocatesNothing(t *testing.T) {
	o, key, m := newOrder(), shard.NSEKey("name"), new(conns)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		o.enter(key, m)
		o.leave(key)
	}))
}

func TestGate(t *testing.T) {
	t.Parallel()
	g := gate{limit: 2}
	require.True(t, g.enter())
	require.True(t, g.enter())
	for range 3 {
		require.False(t, g.enter())
	}
	g.leave()
	require.True(t, g.enter())
	require.False(t, g.enter())
	g.leave()
	g.leave()
	require.Zero(t, g.inFlight.Load())
}

// TestMemberHasNoMoreRoom makes a call at a member while as many as it may have are in flight.
func TestMemberHasNoMoreRoom(t *testing.T) {
	t.Parallel()
	p, err := New(Options{})
	require.NoError(t, err)
	m := &member{Member: shard.Member{Name: "a"}, inFlight: gate{limit: 1}}
	other := &member{Member: shard.Member{Name: "b"}, inFlight: gate{limit: 1}}
	a, err := p.attempt(t.Context(), m, nil, func(ctx context.Context, _ *member, _ *conns) answer {
		_, err := p.attempt(ctx, m, nil, func(context.Context, *member, *conns) answer {
			t.Error("the member was asked")
			return answer{}
		})
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		require.ErrorContains(t, err, "too many calls in flight at member a, try again in 500ms")
		_, err = p.attempt(ctx, other, nil, func(context.Context, *member, *conns) answer { return answer{} })
		require.NoError(t, err, "another member has room")
		return answer{}
	})
	require.NoError(t, err)
	require.Same(t, m, a.from)
	require.Zero(t, m.inFlight.inFlight.Load())
}

func TestBudget(t *testing.T) {
	t.Parallel()
	b := newBudget()
	for range budgetMax {
		require.True(t, b.spend(1))
	}
	require.False(t, b.spend(1), "an outage has used it up")
	require.False(t, b.spend(1))
	for range int(1 / budgetShare) {
		require.False(t, b.spend(1))
		b.earn()
	}
	require.False(t, b.spend(2))
	require.True(t, b.spend(1), "five calls that were answered pay for one attempt")
	require.False(t, b.spend(1))
	for range 10 * budgetMax {
		b.earn()
	}
	for range budgetMax {
		require.True(t, b.spend(1))
	}
	require.False(t, b.spend(1), "quiet times do not pay for more than that")
}
