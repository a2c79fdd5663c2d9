// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	// quickProbe is how often tests have members probed.
	quickProbe = 100 * time.Millisecond
	// hangTimeout is how long a probe may take where a member is to hang; elsewhere a busy machine must not make the
	// impression that one does.
	hangTimeout = 5 * time.Second
)

// following are options with a directory that is compared with a full listing at the beginning, and then not in the
// time of a test.
func following(kind proxy.Store) proxy.Options {
	return proxy.Options{Store: kind, ProbeInterval: quickProbe, ProbeTimeout: patience, ListingInterval: time.Hour}
}

// ready waits until calls may be sent to the front.
func (f *front) ready(tb testing.TB) {
	tb.Helper()
	require.Eventually(tb, func() bool { return len(f.NotReady()) == 0 }, patience, tick, "%v", f.NotReady())
}

// knows waits until the directory says that member holds name.
func (f *front) knows(tb testing.TB, fl flavour, name, member string) {
	tb.Helper()
	want := shard.Route{Member: member, Reason: shard.ReasonHolder}
	require.Eventually(tb, func() bool {
		route, ok := f.Locate(fl.key(name))
		return ok && route.Route == want
	}, patience, tick, "%s at %s", name, member)
}

// forgets waits until the directory does not know name.
func (f *front) forgets(tb testing.TB, fl flavour, name string) {
	tb.Helper()
	require.Eventually(tb, func() bool { return f.routeOf(tb, fl, name).Reason == shard.ReasonRing }, patience, tick)
}

func (f *front) routeOf(tb testing.TB, fl flavour, name string) shard.Route {
	tb.Helper()
	route, ok := f.Locate(fl.key(name))
	require.True(tb, ok)
	return route.Route
}

// eachMethod registers, finds and, if last, unregisters names through the front.
func (f *front) eachMethod(tb testing.TB, fl flavour, names []string, last bool) {
	tb.Helper()
	for _, name := range names {
		_, err := fl.register(within(tb), f.cc, fl.item(name))
		require.NoError(tb, err)
		_, err = fl.list(within(tb), f.cc, fl.query(name, false))
		require.NoError(tb, err)
		if last {
			_, err = fl.unregister(within(tb), f.cc, fl.item(name))
			require.NoError(tb, err)
		}
	}
}

func namesOf(prefix string, n int) []string {
	names := make([]string, 0, n)
	for i := range n {
		names = append(names, fmt.Sprint(prefix, "-", i))
	}
	return names
}

// notAt returns a name that the ring of the front does not give to member.
func (f *front) notAt(tb testing.TB, fl flavour, member, prefix string) string {
	tb.Helper()
	for i := range 10_000 {
		if name := fmt.Sprint(prefix, "-", i); f.holder(tb, fl.key(name)) != member {
			return name
		}
	}
	require.Fail(tb, "no name found")
	return ""
}

func TestOwnTrafficIsLearnt(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		r := startReplicas(t, proxy.SharedStore, "a", "b")
		for _, m := range r.byName {
			m.setOwn(directory, obliging) // nothing is learnt from there
		}
		front := startFront(t, following(proxy.SharedStore), r.describe("a")...)
		front.eachMethod(t, f, []string{"name"}, false)
		require.Equal(t, shard.Route{Member: "a", Reason: shard.ReasonHolder}, front.routeOf(t, f, "name"))
		require.Equal(t, 1, front.Status().Keys)
		_, err := f.unregister(within(t), front.cc, f.item("name"))
		require.NoError(t, err)
		require.Equal(t, shard.ReasonRing, front.routeOf(t, f, "name").Reason)
		require.Zero(t, front.Status().Keys)
	})
}

// TestWithoutADirectoryNothingIsLearnt: an entry that nobody ever compares with the registries could be wrong for ever.
func TestWithoutADirectoryNothingIsLearnt(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	r := startReplicas(t, proxy.SharedStore, "a")
	front := startFront(t, proxy.Options{ListingInterval: -1, ProbeInterval: quickProbe, ProbeTimeout: patience}, r.describe()...)
	front.eachMethod(t, f, []string{"name"}, false)
	require.Equal(t, shard.ReasonRing, front.routeOf(t, f, "name").Reason)
	require.Zero(t, front.Status().Keys)
	require.Empty(t, front.NotReady())
	_, err := f.unregister(within(t), front.cc, f.item("name"))
	require.NoError(t, err)
	require.Zero(t, r.byName["a"].listed.Load())
}

func TestTrafficOfAnotherBalancerIsLearnt(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, kind proxy.Store) {
		t.Helper()
		eachFlavour(t, func(t *testing.T, f flavour) {
			t.Helper()
			r := startReplicas(t, kind, "a", "b", "c")
			one, two := startFront(t, following(kind), r.describe()...), startFront(t, following(kind), r.describe("a")...)
			one.ready(t)
			names := namesOf("name", 30)
			two.eachMethod(t, f, names, false)
			require.Equal(t, map[string]int{"a": 30}, r.held(), "the other balancer knows no other member")
			for _, name := range names {
				one.knows(t, f, name, "a")
			}
			one.eachMethod(t, f, names, false)
			require.Empty(t, r.misplaced())

			gone := one.notAt(t, f, "a", "gone")
			two.eachMethod(t, f, []string{gone}, false)
			one.knows(t, f, gone, "a")
			_, err := f.unregister(within(t), two.cc, f.item(gone))
			require.NoError(t, err)
			one.forgets(t, f, gone)
		})
	})
}

// TestScaleUpMovesNoLivingKey is guarantee G2.
func TestScaleUpMovesNoLivingKey(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, kind proxy.Store) {
		t.Helper()
		f := nseFlavour()
		r := startReplicas(t, kind, "a", "b")
		metrics := prometheus.NewPedanticRegistry()
		options := following(kind)
		options.Registerer = metrics
		front := startFront(t, options, r.describe()...)
		front.ready(t)
		living := namesOf("living", 100)
		front.eachMethod(t, f, living, false)
		before := r.held()
		r.start(t, "c", idOf("c"))
		r.start(t, "d", idOf("d"))
		front.SetMembers(r.describe())
		front.eachMethod(t, f, living, false)
		require.Equal(t, before, r.held())

		front.eachMethod(t, f, namesOf("new", 100), false)
		require.Positive(t, r.held()["c"], "newcomers get new keys")
		require.Positive(t, r.held()["d"])
		front.eachMethod(t, f, living, true)
		require.Empty(t, r.misplaced())
		require.Zero(t, value(t, metrics, "registry_lb_remaps_total", nil))
	})
}

// TestRestartKeepsKeysWhereTheyAre has a balancer that knows nothing but what the registries tell, and a set of members
// whose ring gives most keys to others than those who hold them.
func TestRestartKeepsKeysWhereTheyAre(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, kind proxy.Store) {
		t.Helper()
		r := startReplicas(t, kind, "a", "b")
		before := startFront(t, following(kind), r.describe()...)
		names := namesOf("name", 100)
		for _, f := range []flavour{nseFlavour(), nsFlavour()} {
			before.eachMethod(t, f, names, false)
		}
		r.start(t, "c", idOf("c"))
		r.start(t, "d", idOf("d"))
		before.stop()

		after := startFront(t, following(kind), r.describe()...)
		after.ready(t)
		for _, f := range []flavour{nseFlavour(), nsFlavour()} {
			for _, name := range names {
				require.Equal(t, shard.Route{Member: r.holders[f.key(name)], Reason: shard.ReasonHolder}, after.routeOf(t, f, name))
			}
			after.eachMethod(t, f, names, true)
		}
		require.Empty(t, r.misplaced())
	})
}

func TestNotReadyUntilTheDirectoryIsInSync(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		kind    proxy.Store
		missing string
	}{
		{proxy.SharedStore, "2 full listings are missing"},
		{proxy.PartitionedStore, "4 full listings are missing"},
	} {
		t.Run(string(row.kind), func(t *testing.T) {
			t.Parallel()
			r := startReplicas(t, row.kind, "a", "b")
			listen := make(chan struct{})
			for _, m := range r.byName {
				store := m.store
				m.setOwn(directory, func(c *call) error {
					if !c.isWatch() {
						select {
						case <-listen:
						case <-c.Context().Done():
						}
					}
					return store.script(c)
				})
			}
			logs, seen := observer.New(zap.WarnLevel)
			clock := testingclock.NewFakeClock(time.Now())
			options := following(row.kind)
			options.Clock, options.Log, options.Backends = clock, zap.New(logs), "the test"
			p, err := proxy.New(options)
			require.NoError(t, err)
			require.Equal(t, []string{"members are not known yet: the test has not been read"}, p.NotReady())
			p.SetMembers(nil)
			require.Empty(t, p.NotReady(), "who scaled to 0 shall read why")
			require.False(t, p.Status().Synced)

			front := startFront(t, options, r.describe()...)
			require.Len(t, front.NotReady(), 1)
			require.Contains(t, front.NotReady()[0], "the directory of holders is not in sync: "+row.missing+" after 0s")
			clock.Step(15*time.Second - time.Millisecond)
			require.Len(t, front.NotReady(), 1)
			require.Contains(t, front.NotReady()[0], row.missing+" after 14.999s")
			require.Zero(t, seen.Len())

			clock.Step(time.Millisecond)
			require.Empty(t, front.NotReady(), "better without than not at all")
			require.Empty(t, front.NotReady())
			require.Equal(t, 1, seen.FilterMessageSnippet("calls are taken though the directory of holders is not in sync").Len())
			require.True(t, front.Status().GaveUp)
			require.False(t, front.Status().Synced)
			require.Contains(t, front.Status().Reason, row.missing)

			close(listen)
			require.Eventually(t, func() bool {
				clock.Step(100 * time.Millisecond)
				return front.Status().Synced
			}, patience, tick)
			require.Empty(t, front.Status().Reason)
			require.Empty(t, front.NotReady())
		})
	}
}

// TestMemberThatLeftIsNotWaitedFor has a member of a partitioned store that never answers its listing, and leaves.
func TestMemberThatLeftIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	r := startReplicas(t, proxy.PartitionedStore, "a", "b")
	r.byName["b"].setOwn(directory, (*call).untilDone)
	front := startFront(t, following(proxy.PartitionedStore), r.describe()...)
	require.Eventually(t, func() bool { return strings.Contains(front.NotReady()[0], "2 full listings are missing") }, patience, tick)
	front.SetMembers(r.describe("a"))
	require.Empty(t, front.NotReady())
	require.True(t, front.Status().Synced)
}

// TestListingThatFails has a member that answers its watch and not its listing: another one is asked.
func TestListingThatFails(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	r := startReplicas(t, proxy.SharedStore, "a", "b")
	refuse := func(c *call) error {
		if c.isWatch() {
			return r.shared.script(c)
		}
		return detailed(1)
	}
	for name := range r.byName {
		r.has(f, name, "of-"+name)
	}
	r.byName["a"].setOwn(directory, refuse)
	options := following(proxy.SharedStore)
	front := startFront(t, options, r.describe()...)
	front.ready(t)
	front.knows(t, f, "of-a", "a")
	front.knows(t, f, "of-b", "b")
	require.False(t, front.Status().GaveUp)
	require.Positive(t, r.byName["b"].listed.Load())
}

// TestFollowedMemberIsLost has a shared store, one member of which tells the directory what happens.
func TestFollowedMemberIsLost(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		lose func(front *front, r *replicas)
	}{
		{"it leaves", func(front *front, r *replicas) { front.SetMembers(r.describe("b", "c")) }},
		{"its process dies", func(_ *front, r *replicas) { r.byName["a"].kill() }},
		{"its connections break", func(_ *front, r *replicas) { r.byName["a"].reset() }},
		{"it says that it is not serving", func(_ *front, r *replicas) { r.byName["a"].setOwn(probes, says(notServing)) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := nseFlavour()
			r := startReplicas(t, proxy.SharedStore, "a", "b", "c")
			options := following(proxy.SharedStore)
			options.Rand = atOnce // the first of those that can be asked
			front := startFront(t, options, r.describe()...)
			front.ready(t)
			require.EqualValues(t, 2, r.byName["a"].following.Load(), "one watch for each service")
			row.lose(front, r)
			r.has(f, "c", "meanwhile")
			front.knows(t, f, "meanwhile", "c")
			require.Eventually(t, func() bool {
				a, b := r.byName["a"].following.Load(), r.byName["b"].following.Load()
				return a+b == 2
			}, patience, tick)
			r.has(f, "b", "later")
			front.knows(t, f, "later", "b")
		})
	}
}

// TestNewMembersOfAPartitionedStoreAreFollowed: each knows what nobody else does.
func TestNewMembersOfAPartitionedStoreAreFollowed(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	r := startReplicas(t, proxy.PartitionedStore, "a", "b", "c")
	front := startFront(t, following(proxy.PartitionedStore), r.describe("a")...)
	front.ready(t)
	r.has(f, "b", "before")
	front.SetMembers(r.describe())
	front.knows(t, f, "before", "b")
	r.has(f, "c", "after")
	front.knows(t, f, "after", "c")
	front.SetMembers(r.describe("a"))
	require.Eventually(t, func() bool {
		return r.byName["b"].following.Load() == 0 && r.byName["c"].following.Load() == 0
	}, patience, tick)
	require.EqualValues(t, 2, r.byName["a"].following.Load())
}

// TestMemberThatEndsTheDirectorysWatch is no hot loop.
func TestMemberThatEndsTheDirectorysWatch(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, kind proxy.Store) {
		t.Helper()
		r := startReplicas(t, kind, "a")
		opened := make(chan struct{}, 10_000)
		m := r.byName["a"]
		m.setOwn(directory, func(c *call) error {
			if c.isWatch() {
				opened <- struct{}{}
				return nil
			}
			return m.store.script(c)
		})
		front := startFront(t, following(kind), r.describe()...)
		front.ready(t)
		for range 4 {
			await(t, opened, "the watch that is opened again")
		}
		before := len(opened)
		// Pauses grow from 20 ms to half a second.
		require.Never(t, func() bool { return len(opened)-before > 20 }, time.Second, tick)
	})
}

// replay sends everything again to who watches, as registry-k8s does every minute.
func (s *store) replay(f flavour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range s.all(f) {
		s.notify(f, item, false)
	}
}

// tell sends an event to who watches, whatever is in the store.
func (s *store) tell(f flavour, item proto.Message, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notify(f, item, deleted)
}

// lose removes name, and nobody hears of it.
func (s *store) lose(f flavour, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.items, f.key(name))
}

// caughtUp waits until the directory has heard all that a store has told so far.
func (f *front) caughtUp(tb testing.TB, fl flavour, r *replicas, member string) {
	tb.Helper()
	name := fmt.Sprint("sentinel-", time.Now().UnixNano())
	r.has(fl, member, name)
	f.knows(tb, fl, name, member)
}

func TestReplayChangesNothing(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, kind proxy.Store) {
		t.Helper()
		eachFlavour(t, func(t *testing.T, f flavour) {
			t.Helper()
			r := startReplicas(t, kind, "a", "b")
			metrics := prometheus.NewPedanticRegistry()
			options := following(kind)
			options.Registerer = metrics
			front := startFront(t, options, r.describe()...)
			front.ready(t)
			front.eachMethod(t, f, namesOf("own", 20), false)
			r.has(f, "b", "foreign")
			for name := range r.byName { // each tells for itself if the store is partitioned
				front.caughtUp(t, f, r, name)
			}
			keys := front.Status().KeysByMember
			for range 3 {
				for _, m := range r.byName {
					m.store.replay(f)
				}
			}
			for _, member := range []string{"a", "b"} {
				front.caughtUp(t, f, r, member)
				keys[member]++
			}
			require.Equal(t, keys, front.Status().KeysByMember)
			require.Zero(t, value(t, metrics, "registry_lb_remaps_total", nil))
		})
	})
}

func TestLostDeletesAreMendedByTheNextListing(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, kind proxy.Store) {
		t.Helper()
		eachFlavour(t, func(t *testing.T, f flavour) {
			t.Helper()
			r := startReplicas(t, kind, "a", "b")
			for _, member := range []string{"a", "b"} {
				r.has(f, member, "lost-of-"+member)
				r.has(f, member, "stays-of-"+member)
			}
			options := following(kind)
			options.ListingInterval = 200 * time.Millisecond
			front := startFront(t, options, r.describe()...)
			front.ready(t)
			front.knows(t, f, "lost-of-b", "b")
			for _, m := range r.byName {
				m.store.lose(f, "lost-of-"+m.Name)
			}
			front.forgets(t, f, "lost-of-a")
			front.forgets(t, f, "lost-of-b")
			listed := r.byName["a"].listed.Load() + r.byName["b"].listed.Load()
			require.Eventually(t, func() bool {
				return r.byName["a"].listed.Load()+r.byName["b"].listed.Load() > listed+4
			}, patience, tick)
			front.knows(t, f, "stays-of-a", "a")
			front.knows(t, f, "stays-of-b", "b")
		})
	})
}

// TestListingsAreSpread: the pause between two full listings is the interval, give or take a quarter. Before the first
// pause the listing is repeated once, for what had happened before the watch began.
func TestListingsAreSpread(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		random         float64
		before, within time.Duration
	}{
		{0, 44 * time.Second, 46 * time.Second},
		{0.5, 59 * time.Second, 61 * time.Second},
		{0.999, 74 * time.Second, 76 * time.Second},
	} {
		t.Run(fmt.Sprint(row.random), func(t *testing.T) {
			t.Parallel()
			r := startReplicas(t, proxy.SharedStore, "a")
			clock := testingclock.NewFakeClock(time.Now())
			options := following(proxy.SharedStore)
			options.Clock, options.ListingInterval, options.ProbeInterval = clock, time.Minute, -1
			options.Rand = func() float64 { return row.random }
			front := startFront(t, options, r.describe()...)
			front.ready(t)
			m := r.byName["a"]
			// One timer for each service, and one for the sweep.
			require.Eventually(t, func() bool { return m.listed.Load() == 2 && clock.Waiters() == 3 }, patience, tick)
			clock.Step(time.Second)
			require.Eventually(t, func() bool { return m.listed.Load() == 4 && clock.Waiters() == 3 }, patience, tick)
			clock.Step(row.before)
			require.Never(t, func() bool { return m.listed.Load() > 4 }, 100*time.Millisecond, tick)
			clock.Step(row.within - row.before)
			require.Eventually(t, func() bool {
				return m.listed.Load() == 6 && front.Status().LastListing.Equal(clock.Now())
			}, patience, tick)
		})
	}
}

// TestLateEventDoesNotUndoOwnTraffic has events that are older than what the balancer itself has just heard.
func TestLateEventDoesNotUndoOwnTraffic(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		r := startReplicas(t, proxy.SharedStore, "a", "b")
		front := startFront(t, following(proxy.SharedStore), r.describe()...)
		front.ready(t)
		lives := front.nameAt(t, f, "a", "lives")
		front.eachMethod(t, f, []string{lives}, false)
		elsewhere := signed(f.item(lives), idOf("b"))
		for _, deleted := range []bool{true, false, true} {
			r.shared.tell(f, elsewhere, deleted)
			r.shared.tell(f, signed(f.item(lives), idOf("a")), deleted)
		}
		front.caughtUp(t, f, r, "b")
		front.knows(t, f, lives, "a")
		require.Equal(t, 1, front.Status().KeysByMember["a"])

		r.shared.lose(f, lives) // before anybody could hear that it is deleted
		_, err := f.unregister(within(t), front.cc, f.item(lives))
		require.NoError(t, err)
		r.shared.tell(f, elsewhere, false)
		front.caughtUp(t, f, r, "b")
		require.Equal(t, shard.ReasonRing, front.routeOf(t, f, lives).Reason, "it came back from the dead")
		require.Zero(t, front.Status().KeysByMember["a"])
	})
}

// TestANewcomerThatOnlyAnotherBalancerKnows: who does not know the new holder of a key yet does not give the key to
// another member.
func TestANewcomerThatOnlyAnotherBalancerKnows(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		r := startReplicas(t, proxy.SharedStore, "a", "b")
		front := startFront(t, following(proxy.SharedStore), r.byName["a"].Member)
		front.ready(t)
		front.introduced(t, "a", idOf("a"))
		r.has(f, "b", "nse")
		require.Eventually(t, func() bool { return front.routeOf(t, f, "nse").Awaited }, patience, tick)

		registered := make(chan error, 1)
		go func() {
			_, err := f.register(within(t), front.cc, f.item("nse"))
			registered <- err
		}()
		select {
		case err := <-registered:
			require.Fail(t, "did not wait", "%v", err)
		case <-time.After(200 * time.Millisecond):
		}
		front.SetMembers(r.describe())
		require.NoError(t, <-registered)
		require.Empty(t, r.misplaced())
		front.knows(t, f, "nse", "b")
	})
}

// TestKeysOfWhoLeftBeforeTheStartDoNotWait: what a watch begins with looks like news, and is none.
func TestKeysOfWhoLeftBeforeTheStartDoNotWait(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		r := startReplicas(t, proxy.SharedStore, "a", "b")
		r.has(f, "b", "nse")
		r.leave("b")
		front := startFront(t, following(proxy.SharedStore), r.describe("a")...)
		front.ready(t)
		front.introduced(t, "a", idOf("a"))
		require.Equal(t, shard.Route{Member: "a", Reason: shard.ReasonRing}, front.routeOf(t, f, "nse"))
	})
}

func TestExpiredKeysAreSwept(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	r := startReplicas(t, proxy.SharedStore, "a")
	clock := testingclock.NewFakeClock(time.Now())
	options := following(proxy.SharedStore)
	options.Clock, options.ProbeInterval = clock, -1
	front := startFront(t, options, r.describe()...)
	front.ready(t) // a listing at another time would drop it as well
	nse := f.item("name").(*registry.NetworkServiceEndpoint)
	nse.ExpirationTime = timestamppb.New(clock.Now().Add(time.Minute))
	_, err := f.register(within(t), front.cc, nse)
	require.NoError(t, err)
	// The sweep looks at a part each second.
	pass := func(d time.Duration) {
		for range int(d / time.Second) {
			require.Eventually(t, func() bool { return clock.Waiters() > 0 }, patience, time.Millisecond)
			clock.Step(time.Second)
		}
	}
	pass(65 * time.Second)
	require.Equal(t, 1, front.Status().Keys, "the margin is 10 seconds")
	require.Eventually(t, func() bool {
		clock.Step(time.Second)
		return front.Status().Keys == 0
	}, patience, tick)
	require.Equal(t, shard.ReasonRing, front.routeOf(t, f, "name").Reason)
}

// TestJoiningMembersServeTheKeysThatTheyHold has another balancer that took a member for live somewhat earlier.
func TestJoiningMembersServeTheKeysThatTheyHold(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	r := startReplicas(t, proxy.SharedStore, "a", "b")
	options := following(proxy.SharedStore)
	options.JoinDelay = time.Hour
	front := startFront(t, options, r.describe("a")...)
	front.SetMembers(r.describe())
	require.Equal(t, "joining, ready", summary(front)["b"])
	front.ready(t)
	r.has(f, "b", "held")
	front.knows(t, f, "held", "b")
	front.eachMethod(t, f, []string{"held"}, false)
	front.eachMethod(t, f, namesOf("new", 30), false)
	require.Empty(t, r.misplaced())
	require.Equal(t, map[string]int{"a": 30, "b": 1}, r.held())
}

// TestRequestBringsItsHolder: what a client got back from its last Register says who holds its NSE, where the directory
// does not know.
func TestRequestBringsItsHolder(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		r := startReplicas(t, proxy.SharedStore, "a", "b", "c")
		for _, m := range r.byName {
			m.setOwn(directory, obliging) // nothing is learnt from there
		}
		metrics := prometheus.NewPedanticRegistry()
		options := following(proxy.SharedStore)
		options.Registerer = metrics
		front := startFront(t, options, r.describe()...)
		front.ready(t)
		byPath := func() float64 {
			return value(t, metrics, "registry_lb_route_total", map[string]string{"reason": "path"})
		}
		name := front.nameAt(t, f, "a", "name")
		_, err := f.register(within(t), front.cc, signed(f.item(name), idOf("c")))
		require.NoError(t, err)
		require.InDelta(t, 1, byPath(), 0)
		front.knows(t, f, name, "c")

		// Somebody else's word does not move it.
		_, err = f.register(within(t), front.cc, signed(f.item(name), idOf("b")))
		require.NoError(t, err)
		front.knows(t, f, name, "c")
		// Nor does one who is no member.
		stranger := front.nameAt(t, f, "a", "stranger")
		_, err = f.register(within(t), front.cc, signed(f.item(stranger), idOf("stranger")))
		require.NoError(t, err)
		front.knows(t, f, stranger, "a")
		require.InDelta(t, 1, byPath(), 0)
		require.Empty(t, r.misplaced())
	})
}

func TestPathIDsPassUncut(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	m := startScripted(t, "a")
	got := make(chan []string, 1)
	m.set(func(c *call) error {
		got <- c.request.(*registry.NetworkServiceEndpoint).GetPathIds()
		return obliging(c)
	})
	front := startFront(t, proxy.Options{}, m.Member)
	ids := []string{"spiffe://test/client", "spiffe://test/nsmgr", "spiffe://elsewhere/registry", "spiffe://elsewhere/proxy"}
	nse := &registry.NetworkServiceEndpoint{Name: "name", PathIds: ids}
	_, err := f.register(within(t), front.cc, nse)
	require.NoError(t, err)
	require.Equal(t, ids, <-got, "without a segment of its own there is nothing to cut after")
	_, err = f.unregister(within(t), front.cc, nse)
	require.NoError(t, err)
	require.Equal(t, ids, <-got)
}

func TestStatusAndMetrics(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	r := startReplicas(t, proxy.SharedStore, "a", "b")
	metrics := prometheus.NewPedanticRegistry()
	options := following(proxy.SharedStore)
	options.Registerer = metrics
	front := startFront(t, options, r.describe()...)
	require.Zero(t, value(t, metrics, "registry_lb_directory_last_listing_timestamp_seconds", nil))
	began := time.Now()
	front.ready(t)
	names := namesOf("name", 40)
	front.eachMethod(t, f, names, false)

	s := front.Status()
	require.True(t, s.Synced)
	require.WithinDuration(t, began, s.LastListing, patience)
	require.Equal(t, 40, s.Keys)
	require.Equal(t, r.held(), s.KeysByMember)
	require.Empty(t, s.DuplicateIDs)
	require.Equal(t, shard.NewRing([]string{"b", "a"}).Checksum(), s.Checksum)
	for _, m := range front.Members() {
		require.Equal(t, idOf(m.Name), m.SpiffeID)
		require.Equal(t, r.held()[m.Name], m.Keys)
		require.Zero(t, m.InFlight)
	}
	metric := func(name string, labels map[string]string) float64 {
		return value(t, metrics, "registry_lb_"+name, labels)
	}
	require.InDelta(t, 40, metric("keys", nil), 0)
	require.InDelta(t, 1, metric("directory_synced", nil), 0)
	require.InDelta(t, float64(s.LastListing.UnixNano())/1e9, metric("directory_last_listing_timestamp_seconds", nil), 1)
	require.Zero(t, metric("duplicate_member_ids", nil))

	// A holder that leaves gives its keys to others, one that comes back as another life gets new ones.
	held := r.held()["a"]
	r.leave("a")
	front.SetMembers(r.describe("b"))
	front.eachMethod(t, f, names, false)
	require.InDelta(t, float64(held), metric("remaps_total", map[string]string{"reason": "left"}), 0)
	require.Zero(t, metric("remaps_total", map[string]string{"reason": "moved"}))
	require.Equal(t, 40, front.Status().KeysByMember["b"])

	// Calls in flight are counted.
	waiting, finish := make(chan struct{}), make(chan struct{})
	r.byName["b"].set(func(c *call) error {
		waiting <- struct{}{}
		<-finish
		return obliging(c)
	})
	done := make(chan error, 1)
	go func() { _, err := f.register(t.Context(), front.cc, f.item("slow")); done <- err }()
	await(t, waiting, "the call")
	require.Equal(t, map[string]int64{"a": 0, "b": 1}, inFlight(front))
	close(finish)
	require.NoError(t, await(t, done, "the answer"))
	require.Eventually(t, func() bool { return maps.Equal(map[string]int64{"a": 0, "b": 0}, inFlight(front)) }, patience, tick)
}

func inFlight(front *front) map[string]int64 {
	counts := make(map[string]int64)
	for _, m := range front.Members() {
		counts[m.Name] = m.InFlight
	}
	return counts
}

// TestManyNSEsAreSyncedSoon logs how long it takes until a balancer that has just started knows all holders.
func TestManyNSEsAreSyncedSoon(t *testing.T) {
	// Not parallel: it takes all there is of the machine, and measures.
	n := 20_000
	if raceDetector {
		n = 4_000
	}
	f := nseFlavour()
	r := startReplicas(t, proxy.SharedStore, "a", "b", "c", "d")
	for i := range n {
		r.has(f, string(rune('a'+i%4)), fmt.Sprint("name-", i))
	}
	began := time.Now()
	front := startFront(t, following(proxy.SharedStore), r.describe()...)
	front.ready(t)
	t.Logf("in sync with %d NSEs after %v", n, time.Since(began).Round(time.Millisecond))
	require.False(t, front.Status().GaveUp)
	require.Equal(t, map[string]int{"a": n / 4, "b": n / 4, "c": n / 4, "d": n / 4}, front.Status().KeysByMember)
	names := make([]string, 0, 200)
	for i := range cap(names) {
		names = append(names, fmt.Sprint("name-", i*n/cap(names)))
	}
	front.eachMethod(t, f, names, false)
	require.Empty(t, r.misplaced())
}

// TestStopEndsTheDirectory: goleak finds what is left of it.
func TestStopEndsTheDirectory(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, kind proxy.Store) {
		t.Helper()
		r := startReplicas(t, kind, "a", "b")
		p, err := proxy.New(following(kind))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, p.Run(ctx))

		front := startFront(t, following(kind), r.describe()...)
		front.stop()
		require.Eventually(t, func() bool {
			return r.byName["a"].following.Load()+r.byName["b"].following.Load() == 0
		}, patience, tick)
		require.Contains(t, []string{"live, ready"}, summary(front)["a"])
	})
}
