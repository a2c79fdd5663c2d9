// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// startPartitioned starts members that have a store each.
func startPartitioned(t *testing.T, names ...string) (map[string]*scripted, map[string]*store) {
	t.Helper()
	members := startScripteds(t, names...)
	stores := make(map[string]*store, len(members))
	for name, m := range members {
		stores[name] = newStore()
		m.set(stores[name].script)
	}
	return members, stores
}

func TestPartitionedListIsMerged(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		members, stores := startPartitioned(t, "a", "b", "c")
		front := startFront(t, proxy.Options{Store: proxy.PartitionedStore}, describe(members)...)
		list := func() []string {
			responses, err := f.list(within(t), front.cc, f.query("", false))
			require.NoError(t, err)
			texts := make([]string, 0, len(responses))
			for _, r := range responses {
				texts = append(texts, eventText(r))
			}
			slices.Sort(texts)
			return texts
		}
		for name, s := range stores {
			s.put(f, f.item("of-"+name))
		}
		require.Equal(t, []string{"of-a", "of-b", "of-c"}, list())

		// Two copies of one name: that of the member that serves the name counts.
		name := front.nameAt(t, f, "b", "copy")
		for member, s := range stores {
			s.put(f, f.itemWith(name, member))
		}
		require.Contains(t, list(), name+"=b")
		require.Len(t, list(), 4)

		// Of a member that is down the names are gone, and nothing else is.
		members["c"].kill()
		require.Equal(t, []string{name + "=b", "of-a", "of-b"}, list())

		// A status that a member gave is the answer.
		members["a"].set(func(*call) error { return detailed(codes.FailedPrecondition) })
		_, err := f.list(within(t), front.cc, f.query("", false))
		requireCode(t, codes.FailedPrecondition, err)
	})
}

func TestPartitionedWatchIsMerged(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		members, stores := startPartitioned(t, "a", "b", "c")
		for name, s := range stores {
			s.put(f, f.item("of-"+name))
		}
		front := startFront(t, proxy.Options{Store: proxy.PartitionedStore}, members["a"].Member, members["b"].Member)
		w := front.watch(t, f, "")
		require.Equal(t, []string{"of-a", "of-b"}, w.nextSorted(t, 2))

		front.SetMembers(describe(members))
		require.Equal(t, "of-c", w.next(t), "a member that joined later")
		for name, s := range stores {
			s.put(f, f.item("late-"+name))
			require.Equal(t, "late-"+name, w.next(t))
			s.remove(f, "late-"+name)
			require.Equal(t, "-late-"+name, w.next(t))
		}

		// The old copy of what has moved says nothing when it ends.
		stores["a"].put(f, f.itemWith("moved", "a"))
		require.Equal(t, "moved=a", w.next(t))
		stores["b"].put(f, f.itemWith("moved", "b"))
		require.Equal(t, "moved=b", w.next(t))
		stores["a"].remove(f, "moved")
		stores["a"].put(f, f.item("sentinel"))
		require.Equal(t, "sentinel", w.next(t))
	})
}

func TestPartitionedWatchAfterAMemberIsLost(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		lose func(t *testing.T, front *front, members map[string]*scripted)
	}{
		{"it leaves", func(_ *testing.T, front *front, members map[string]*scripted) {
			front.SetMembers([]shard.Member{members["a"].Member})
		}},
		{"it dies and then leaves", func(_ *testing.T, front *front, members map[string]*scripted) {
			members["b"].kill()
			front.SetMembers([]shard.Member{members["a"].Member})
		}},
		{"its pod is replaced", func(t *testing.T, front *front, members map[string]*scripted) {
			t.Helper()
			members["b"].kill()
			members["b"].UID = "another"
			members["b"].set(newStore().script)
			members["b"].restart(t)
			front.SetMembers(describe(members))
		}},
		{"it restarts in place, empty", func(_ *testing.T, _ *front, members map[string]*scripted) {
			members["b"].set(newStore().script)
			members["b"].reset()
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := nseFlavour()
			members, stores := startPartitioned(t, "a", "b")
			stores["b"].put(f, f.item("lost"))
			stores["b"].put(f, f.item("re-registered"))
			clock := testingclock.NewFakeClock(time.Now())
			front := startFront(t, proxy.Options{Store: proxy.PartitionedStore, Rand: atOnce, Clock: clock}, describe(members)...)
			w := front.watch(t, f, "")
			require.Equal(t, []string{"lost", "re-registered"}, w.nextSorted(t, 2))

			row.lose(t, front, members)
			stores["a"].put(f, f.item("re-registered"))
			// Less than the grace of 5 s: nothing is reported.
			for range 40 {
				clock.Step(100 * time.Millisecond)
				require.Empty(t, w.events)
			}
			stores["a"].put(f, f.item("sentinel"))
			require.Equal(t, "sentinel", w.next(t))
			require.Eventually(t, func() bool {
				clock.Step(500 * time.Millisecond)
				return len(w.events) > 0
			}, patience, tick)
			require.Equal(t, "-lost", w.next(t))
			clock.Step(time.Minute)
			stores["a"].put(f, f.item("the end"))
			require.Equal(t, "the end", w.next(t), "re-registered is alive")
		})
	}
}

// TestPartitionedNamedWatchFollowsItsName opens a watch for a name that nobody has registered yet, and changes the
// members so that the name gets another place: who registers it then does so there.
func TestPartitionedNamedWatchFollowsItsName(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		change func(t *testing.T, front *front, members map[string]*scripted, stores map[string]*store)
	}{
		{"a member joins", func(t *testing.T, front *front, members map[string]*scripted, _ map[string]*store) {
			t.Helper()
			front.SetMembers(describe(members))
		}},
		{"the member that was unreachable is replaced", func(t *testing.T, front *front, members map[string]*scripted, _ map[string]*store) {
			t.Helper()
			members["b"].kill()
			front.SetMembers(describe(members))
			members["b"].restart(t)
			members["b"].UID = "another"
			front.SetMembers(describe(members))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := nseFlavour()
			members, stores := startPartitioned(t, "a", "b")
			// Watches without events have no header: as the SDK's registries do.
			for name, m := range members {
				m.set(func(c *call) error {
					return stores[name].script(&call{headless{c.ServerStream}, c.flavour, c.method, c.request})
				})
			}
			front := startFront(t, proxy.Options{Store: proxy.PartitionedStore, Rand: atOnce}, describe(members)...)
			name := front.nameAt(t, f, "b", "name")
			front.SetMembers([]shard.Member{members["a"].Member})
			w := front.watch(t, f, name)
			require.Eventually(t, func() bool { return stores["a"].watching() == 1 }, patience, tick)
			row.change(t, front, members, stores)
			require.Eventually(t, func() bool { return stores["b"].watching() == 1 && stores["a"].watching() == 0 }, patience, tick)
			_, err := f.register(within(t), front.cc, f.item(name))
			require.NoError(t, err)
			require.Equal(t, name, w.next(t))
		})
	}
}

func TestPartitionedCallsOfAllNamesFindTheirMember(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		members, stores := startPartitioned(t, "a", "b", "c")
		front := startFront(t, proxy.Options{Store: proxy.PartitionedStore}, describe(members)...)
		for i := range 30 {
			name := fmt.Sprint("name-", i)
			_, err := f.register(within(t), front.cc, f.item(name))
			require.NoError(t, err)
			list, err := f.list(within(t), front.cc, f.query(name, false))
			require.NoError(t, err)
			require.Len(t, list, 1)
			_, err = f.unregister(within(t), front.cc, f.item(name))
			require.NoError(t, err)
		}
		for _, s := range stores {
			require.Empty(t, s.items)
		}
	})
}

// TestPartitionedWatchWaitsForMembers: that no member can be reached now is no reason to end a watch over all of them.
func TestPartitionedWatchWaitsForMembers(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	members, stores := startPartitioned(t, "a", "b")
	stores["b"].put(f, f.item("name"))
	for _, m := range members {
		m.kill()
	}
	registry := prometheus.NewPedanticRegistry()
	front := startFront(t, proxy.Options{Store: proxy.PartitionedStore, Registerer: registry, NoBackendWait: -1}, describe(members)...)
	w := front.watch(t, f, "")
	require.Eventually(t, func() bool { return value(t, registry, "registry_lb_watch_clients", nil) == 1 }, patience, tick)
	members["b"].restart(t)
	require.Equal(t, "name", w.next(t))
}
