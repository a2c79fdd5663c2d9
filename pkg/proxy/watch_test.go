// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// atOnce is the randomness that spreads nothing.
func atOnce() float64 { return 0 }

// startShared starts members that all see one store.
func startShared(t *testing.T, names ...string) (map[string]*scripted, *store) {
	t.Helper()
	s := newStore()
	members := startScripteds(t, names...)
	for _, m := range members {
		m.set(s.script)
	}
	return members, s
}

func TestWatchHeaderComesBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		for _, store := range []proxy.Store{proxy.SharedStore, proxy.PartitionedStore} {
			for _, name := range []string{"", "name"} {
				m := startScripted(t, "a")
				m.set(func(c *call) error {
					_ = c.SendHeader(metadata.Pairs("path", "from the member"))
					return c.untilDone()
				})
				front := startFront(t, proxy.Options{Store: store}, m.Member)
				s, err := f.find(within(t), front.cc, f.query(name, true))
				require.NoError(t, err)
				header, err := s.Header()
				require.NoError(t, err)
				require.Equal(t, []string{"from the member"}, header.Get("path"))
			}
		}
	})
}

func TestNamedWatchEndsWithItsMember(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name string
		end  func(t *testing.T, front *front, members map[string]*scripted, holder string)
	}{
		{"when it leaves the set", func(_ *testing.T, front *front, members map[string]*scripted, holder string) {
			rest := make([]shard.Member, 0, len(members))
			for name, m := range members {
				if name != holder {
					rest = append(rest, m.Member)
				}
			}
			front.SetMembers(rest)
		}},
		{"when it is no longer ready", func(_ *testing.T, front *front, members map[string]*scripted, holder string) {
			described := describe(members)
			for i := range described {
				if described[i].Name == holder {
					described[i].Phase = shard.NotReady
				}
			}
			front.SetMembers(described)
		}},
		{"when it has a new life", func(_ *testing.T, front *front, members map[string]*scripted, holder string) {
			members[holder].UID = "another"
			front.SetMembers(describe(members))
		}},
		{"when its process dies", func(_ *testing.T, _ *front, members map[string]*scripted, holder string) {
			members[holder].kill()
		}},
		{"when its connections break", func(_ *testing.T, _ *front, members map[string]*scripted, holder string) {
			members[holder].reset()
		}},
		{"when registry-lb drains", func(_ *testing.T, front *front, _ map[string]*scripted, _ string) {
			front.Drain()
		}},
		{"when registry-lb stops", func(_ *testing.T, front *front, _ map[string]*scripted, _ string) {
			front.stop()
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := nseFlavour()
			members, store := startShared(t, "a", "b", "c")
			store.put(f, f.item("name"))
			front := startFront(t, proxy.Options{}, describe(members)...)
			w := front.watch(t, f, "name")
			require.Equal(t, "name", w.next(t))
			began := time.Now()
			row.end(t, front, members, front.holder(t, f.key("name")))
			requireCode(t, codes.Unavailable, await(t, w.ended, "the end of the watch"))
			require.Less(t, time.Since(began), patience/2, "the spread is one second")
			require.Eventually(t, func() bool { return store.watching() == 0 }, patience, tick)
		})
	}
}

func TestEndsOfWatchesAreSpread(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		end  func(front *front, m *scripted)
		// waits is how much more waits for the clock then: four watches, and the connections of a member that has left.
		waits int
	}{
		{"member leaves", func(front *front, _ *scripted) { front.SetMembers(nil) }, 5},
		{"process dies", func(_ *front, m *scripted) { m.kill() }, 4},
		{"drain", func(front *front, _ *scripted) { front.Drain() }, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := nseFlavour()
			members, store := startShared(t, "a")
			for i := range 4 {
				store.put(f, f.item(strconv.Itoa(i)))
			}
			clock := testingclock.NewFakeClock(time.Now())
			var next atomic.Int64
			front := startFront(t, proxy.Options{Clock: clock, Rand: func() float64 { return float64(next.Add(1)) / 8 }}, describe(members)...)
			ended := make(chan error, 4)
			for i := range 4 {
				w := front.watch(t, f, strconv.Itoa(i))
				w.next(t)
				go func() { ended <- <-w.ended }()
			}
			before := clock.Waiters()
			row.end(front, members["a"])
			require.Eventually(t, func() bool { return clock.Waiters() >= before+row.waits }, patience, tick)
			require.Empty(t, ended)
			for range 4 { // of the eighths of the second that Rand gives
				clock.Step(time.Second / 8)
				requireCode(t, codes.Unavailable, await(t, ended, "the end of one watch"))
				require.Empty(t, ended)
			}
		})
	}
}

func TestUnnamedWatchOutlivesItsMember(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		end  func(front *front, serving, other *scripted)
	}{
		{"that leaves", func(front *front, _, other *scripted) { front.SetMembers([]shard.Member{other.Member}) }},
		{"that dies", func(_ *front, serving, _ *scripted) { serving.kill() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			eachFlavour(t, func(t *testing.T, f flavour) {
				t.Helper()
				members := startScripteds(t, "a", "b")
				serving, other := members["a"], members["b"]
				first, second := newStore(), newStore()
				serving.set(first.script)
				other.set(second.script)
				front := startFront(t, proxy.Options{Rand: atOnce}, describe(members)...)
				if front.holder(t, shard.NSKey("")) == "b" {
					serving, other = other, serving
					first, second = second, first
				}
				for _, name := range []string{"same", "vanished", "changed"} {
					first.put(f, f.item(name))
				}
				w := front.watch(t, f, "")
				require.Equal(t, []string{"changed", "same", "vanished"}, w.nextSorted(t, 3))

				second.put(f, f.item("same"))
				second.put(f, f.itemWith("changed", "content"))
				second.put(f, f.item("new"))
				row.end(front, serving, other)
				require.Equal(t, []string{"-vanished", "changed=content", "new"}, w.nextSorted(t, 3))
				second.put(f, f.item("later"))
				require.Equal(t, "later", w.next(t), "something that the client knew was sent again")
				second.remove(f, "same")
				require.Equal(t, "-same", w.next(t))
			})
		})
	}
}

// TestVanishedIsLookedForAfterTheWatchHasBegun: a list that were read before the new member has begun to watch would
// have what is deleted between the two, which the client would then never hear of.
func TestVanishedIsLookedForAfterTheWatchHasBegun(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	members, store := startShared(t, "a", "b")
	var lists atomic.Int64
	for _, m := range members {
		m.set(func(c *call) error {
			if c.method == "Find" && !c.isWatch() {
				lists.Add(1)
			}
			return store.script(c)
		})
	}
	store.put(f, f.item("name"))
	clock := testingclock.NewFakeClock(time.Now())
	front := startFront(t, proxy.Options{Rand: atOnce, Clock: clock}, describe(members)...)
	w := front.watch(t, f, "")
	require.Equal(t, "name", w.next(t))
	serving := members[front.holder(t, shard.NSKey(""))]
	serving.reset()
	require.Eventually(t, func() bool { return store.watching() == 0 }, patience, tick)
	require.Eventually(t, func() bool {
		clock.Step(20 * time.Millisecond) // the pause before the watch is opened again
		return store.watching() == 1
	}, patience, tick)
	require.Never(t, func() bool { return lists.Load() > 0 }, 200*time.Millisecond, tick)
	require.Eventually(t, func() bool {
		clock.Step(100 * time.Millisecond)
		return lists.Load() == 1
	}, patience, tick)
}

func TestUnnamedWatchWaitsForAMember(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{-1, 50 * time.Millisecond} {
		f := nseFlavour()
		members, store := startShared(t, "a")
		store.put(f, f.item("one"))
		front := startFront(t, proxy.Options{Rand: atOnce, NoBackendWait: wait}, describe(members)...)
		w := front.watch(t, f, "")
		require.Equal(t, "one", w.next(t))
		front.SetMembers(nil)
		require.Eventually(t, func() bool { return store.watching() == 0 }, patience, tick)
		_, err := f.register(within(t), front.cc, f.item("x"))
		requireCode(t, codes.Unavailable, err)

		store.put(f, f.item("two"))
		members["a"].UID = "another"
		front.SetMembers(describe(members))
		require.Equal(t, "two", w.next(t))
	}
}

// TestNobodyToWatchIsNoHotLoop counts how often a watch that outlived its members looks for another one.
func TestNobodyToWatchIsNoHotLoop(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	members, store := startShared(t, "a")
	store.put(f, f.item("one"))
	var looks atomic.Int64
	waiting := make(chan struct{})
	front := startFront(t, proxy.Options{Rand: func() float64 { looks.Add(1); return 0 }, NoBackendWait: -1, Clock: newSignallingClock(waiting)},
		describe(members)...)
	w := front.watch(t, f, "")
	w.next(t)
	members["a"].kill()
	began := time.Now()
	require.Never(t, func() bool {
		// Pauses grow from 10 ms to half a second; each round asks Rand for one.
		return looks.Load() > 20+int64(time.Since(began)/(50*time.Millisecond))
	}, time.Second, tick)
}

func TestMemberThatEndsWatchesIsNoHotLoop(t *testing.T) {
	t.Parallel()
	for _, store := range []proxy.Store{proxy.SharedStore, proxy.PartitionedStore} {
		for _, header := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s header %v", store, header), func(t *testing.T) {
				t.Parallel()
				f := nseFlavour()
				m := startScripted(t, "a")
				var opens atomic.Int64
				m.set(func(c *call) error {
					opens.Add(1)
					if header {
						return c.SendHeader(nil)
					}
					return nil
				})
				front := startFront(t, proxy.Options{Store: store, NoBackendWait: patience}, m.Member)
				w := front.watch(t, f, "")
				require.Eventually(t, func() bool { return opens.Load() > 1 }, patience, tick)
				require.Never(t, func() bool { return len(w.ended) > 0 || opens.Load() > 40 }, time.Second, tick)
			})
		}
	}
}

func TestWatchWithTrailersOnlyOKDoesNotEndWithEOF(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	m := startScripted(t, "a")
	m.set(func(*call) error { return nil })
	front := startFront(t, proxy.Options{NoBackendWait: 100 * time.Millisecond}, m.Member)
	w := front.watch(t, f, "name")
	requireCode(t, codes.Unavailable, await(t, w.ended, "the end"))
}

// TestStalledClient has a client that reads nothing of a watch, and others that must not notice.
func TestStalledClient(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	members, store := startShared(t, "a")
	registry := prometheus.NewPedanticRegistry()
	clock := testingclock.NewFakeClock(time.Now())
	front := startFront(t, proxy.Options{Clock: clock, Registerer: registry}, describe(members)...)

	const window = 64 << 10
	stalled, err := f.find(t.Context(), front.dial(t, grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window)), f.query("", true))
	require.NoError(t, err)
	_, err = stalled.Header()
	require.NoError(t, err)
	w := front.watch(t, f, "")

	// What fills the stalled client's window twenty times reaches the other one.
	filler := string(make([]byte, window))
	const fillers = 20
	for i := range fillers {
		store.put(f, f.itemWith(fmt.Sprintf("filler-%02d", i), filler))
	}
	// Many states of one name are one state to who did not read.
	const updates = 200
	for i := range updates {
		_, err := f.register(within(t), front.cc, f.itemWith("busy", strconv.Itoa(i)))
		require.NoError(t, err)
	}
	for last := ""; last != fmt.Sprintf("busy=%d", updates-1); {
		last = w.next(t)
	}
	// The member has nothing left to send: its stream to the stalled client's watch is drained.
	require.Equal(t, 2, store.watching())

	require.Zero(t, value(t, registry, "registry_lb_watch_dropped_total", nil))
	require.Eventually(t, func() bool {
		clock.Step(31 * time.Second)
		return value(t, registry, "registry_lb_watch_dropped_total", nil) == 1
	}, patience, 50*time.Millisecond)
	require.Eventually(t, func() bool { return store.watching() == 1 }, patience, tick)

	rest, err := stalled.all()
	requireCode(t, codes.ResourceExhausted, err)
	require.Less(t, len(rest), fillers)
	store.put(f, f.item("after"))
	require.Equal(t, "after", w.next(t))
}

// TestStalledList is the same for a list, which is not held in memory for ever either.
func TestStalledList(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	members, store := startShared(t, "a")
	const window = 64 << 10
	filler := string(make([]byte, window))
	for i := range 20 {
		store.put(f, f.itemWith(fmt.Sprintf("filler-%02d", i), filler))
	}
	clock := testingclock.NewFakeClock(time.Now())
	metrics := prometheus.NewPedanticRegistry()
	front := startFront(t, proxy.Options{Clock: clock, ProbeInterval: -1, Registerer: metrics}, describe(members)...)
	stalled, err := f.find(t.Context(), front.dial(t, grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window)), f.query("", false))
	require.NoError(t, err)
	_, err = stalled.Header()
	require.NoError(t, err)

	refused := prometheus.Labels{"service": f.service, "method": "Find", "code": "ResourceExhausted"}
	require.Eventually(t, func() bool {
		clock.Step(31 * time.Second)
		return value(t, metrics, "registry_lb_requests_total", refused) == 1
	}, patience, 50*time.Millisecond)
	rest, err := stalled.all()
	requireCode(t, codes.ResourceExhausted, err)
	require.Less(t, len(rest), 20)
}

func TestEventsOfOneNameAreCoalesced(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		for _, storeKind := range []proxy.Store{proxy.SharedStore, proxy.PartitionedStore} {
			for _, name := range []string{"", "busy"} {
				const (
					window  = 64 << 10
					updates = 200
				)
				m := startScripted(t, "a")
				drained := make(chan struct{})
				filler := string(make([]byte, window/2))
				m.set(func(c *call) error {
					defer close(drained)
					for i := range updates {
						if err := c.SendMsg(f.response(f.itemWith("busy", filler+strconv.Itoa(i)), false)); err != nil {
							return err
						}
					}
					_ = c.SendMsg(f.response(f.item("busy"), true))
					drained <- struct{}{}
					return c.untilDone()
				})
				front := startFront(t, proxy.Options{Store: storeKind}, m.Member)
				ctx := within(t)
				s, err := f.find(ctx, front.dial(t, grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window)), f.query(name, true))
				require.NoError(t, err)
				await(t, drained, "the member to get rid of its events")
				events := 0
				for {
					r, err := s.recv()
					require.NoError(t, err)
					events++
					if isDeleted(r) {
						break
					}
				}
				require.Less(t, events, updates/2)
			}
		}
	})
}

// TestManyWatches opens watches and closes them again: nothing is left of them at the client's side, at the member's, or
// in between.
func TestManyWatches(t *testing.T) {
	// Not parallel: it counts goroutines.
	const total = 10_000
	n := total
	if raceDetector {
		n = 2_000 // there is a bound for how many goroutines it can follow
	}
	f := nseFlavour()
	members, store := startShared(t, "a", "b")
	store.put(f, f.item("name"))
	registry := prometheus.NewPedanticRegistry()
	front := startFront(t, proxy.Options{Rand: atOnce, Registerer: registry}, describe(members)...)
	watches := func(metric string) float64 { return value(t, registry, "registry_lb_watch_"+metric, nil) }
	open := func(n int) (closeAll func()) {
		cc := front.dial(t)
		for i := range n {
			s, err := f.find(t.Context(), cc, f.query([]string{"", "name"}[i%2], true))
			require.NoError(t, err)
			_, err = s.recv()
			require.NoError(t, err)
		}
		require.InDelta(t, float64(n), watches("clients"), 0)
		require.InDelta(t, float64(n), watches("upstreams"), 0)
		require.Equal(t, n, store.watching())
		return func() { _ = cc.Close() }
	}
	settled := func() {
		require.Eventually(t, func() bool {
			return watches("clients") == 0 && watches("upstreams") == 0 && store.watching() == 0
		}, patience, tick)
	}
	call := func() {
		_, err := f.register(within(t), front.cc, f.item("another"))
		require.NoError(t, err)
	}
	call()
	open(10)() // connections stay
	settled()
	before := runtime.NumGoroutine()
	for range total / n {
		closeAll := open(n)
		require.Greater(t, runtime.NumGoroutine(), before+n)
		// They do not starve a call.
		began := time.Now()
		call()
		t.Logf("a Register among %d watches took %v", n, time.Since(began))
		closeAll()
		settled()
		require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+5 }, patience, tick,
			"%d goroutines before", before)
	}
}
