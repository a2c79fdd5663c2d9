// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

const (
	client = "spiffe://example.org/ns/default/pod/client"
	passes = parts / sweepParts
)

func id(member string) string { return "spiffe://example.org/ns/nsm-system/pod/" + member }

// newTestTable returns a table whose members are called so, each with its ID.
func newTestTable(t require.TestingT, names ...string) (*Table, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(epoch)
	table := NewTable(clock)
	table.SetMembers(members(names...), nil)
	for _, name := range names {
		table.SetID(name, id(name))
	}
	require.Empty(t, table.DuplicateIDs())
	return table, clock
}

// newSmallTable is newTestTable for those who need many tables and no ring, which takes a while to compute.
func newSmallTable(names []string) (*Table, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(epoch)
	table := NewTable(clock)
	table.view.Store(table.view.Load().change(func(places []place) []place {
		for _, name := range names {
			places = seated(places, place{name: name, uid: name, id: id(name), presence: live})
		}
		return places
	}))
	return table, clock
}

// sweepAll sweeps the whole directory.
func sweepAll(table *Table) int {
	dropped := 0
	for range passes {
		dropped += table.Sweep()
	}
	return dropped
}

func later(clock *clocktesting.FakePassiveClock, d time.Duration) { clock.SetTime(clock.Now().Add(d)) }

// elsewhere returns a member to which the ring does not give k.
func elsewhere(table *Table, k Key) string {
	own, _ := table.Ring().Locate(k)
	return without(table.Ring().Members(), []string{own})[0]
}

func requireRoute(t require.TestingT, table *Table, k Key, pathIDs []string, want Route) {
	got, ok := table.Route(k, pathIDs)
	require.True(t, ok)
	require.Equal(t, want, got)
}

func byRing(table *Table, k Key) Route {
	name, _ := table.Ring().Locate(k)
	return Route{Member: name, Reason: ReasonRing}
}

func TestTableWithoutMembersRoutesNowhere(t *testing.T) {
	table := NewTable(clocktesting.NewFakePassiveClock(epoch))
	_, ok := table.Route(NSEKey("a"), []string{client})
	require.False(t, ok)
	_, ok = table.RouteExcept(NSEKey("a"), nil, func(string) bool { return false })
	require.False(t, ok)
	require.Zero(t, table.Keys())
	require.Empty(t, table.KeysByMember())
	require.Zero(t, sweepAll(table))

	table.SetID("nobody", id("nobody"))
	require.Equal(t, NotRemapped, table.Registered(NSEKey("a"), Registration{Member: "nobody"}))
	_, ok = table.Route(NSEKey("a"), []string{id("nobody")})
	require.False(t, ok, "a stranger is given calls")
}

func TestTableRoutesToTheHolderThenByPathThenByRing(t *testing.T) {
	table, _ := newTestTable(t, "r-0", "r-1", "r-2")
	k := NSEKey("nse")
	holder := elsewhere(table, k)
	other := without(table.Ring().Members(), []string{holder})[0]

	requireRoute(t, table, k, nil, byRing(table, k))
	requireRoute(t, table, k, []string{client}, byRing(table, k))
	requireRoute(t, table, k, []string{client, id(holder)}, Route{Member: holder, Reason: ReasonPath})
	requireRoute(t, table, k, []string{client, id(other), id(holder), "spiffe://other.domain/registry"},
		Route{Member: holder, Reason: ReasonPath})

	table.Registered(k, Registration{Member: holder})
	requireRoute(t, table, k, nil, Route{Member: holder, Reason: ReasonHolder})
	requireRoute(t, table, k, []string{client, id(other)}, Route{Member: holder, Reason: ReasonHolder})
	requireRoute(t, table, NSKey("nse"), nil, byRing(table, NSKey("nse")))

	table.Unregistered(k)
	requireRoute(t, table, k, nil, byRing(table, k))
}

func TestTableLocatesKeysWithTheirTimes(t *testing.T) {
	table, clock := newTestTable(t, "r-0", "r-1")
	k, expires := NSEKey("nse"), epoch.Add(time.Minute+time.Nanosecond)
	requireLocation := func(want Location) {
		t.Helper()
		got, ok := table.Locate(k)
		require.True(t, ok)
		require.Equal(t, want, got)
		requireRoute(t, table, k, nil, want.Route)
	}
	held := func(member string) Route { return Route{Member: member, Reason: ReasonHolder} }
	requireLocation(Location{Route: byRing(table, k)})

	table.Registered(k, Registration{Member: "r-0", Expires: expires})
	requireLocation(Location{held("r-0"), epoch, expires})

	later(clock, 30*time.Second)
	table.Registered(k, Registration{Member: "r-0", Expires: expires.Add(time.Minute)})
	requireLocation(Location{held("r-0"), epoch, expires.Add(time.Minute)})

	table.SetMembers(members("r-1"), nil)
	requireLocation(Location{Route: Route{Member: "r-1", Reason: ReasonRing}})

	later(clock, time.Second)
	table.Registered(k, Registration{Member: "r-1"})
	requireLocation(Location{held("r-1"), epoch.Add(31 * time.Second), time.Time{}})

	table.Unregistered(k)
	requireLocation(Location{Route: Route{Member: "r-1", Reason: ReasonRing}})

	table.SetMembers(nil, nil)
	_, ok := table.Locate(k)
	require.False(t, ok)
}

func TestTableForgetsOwnTrafficLongBeforeItsTimeRecurs(t *testing.T) {
	table, clock := newTestTable(t, "r-0")
	k := NSKey("ns")
	table.Registered(k, Registration{Member: "r-0"})
	later(clock, maxTickAge+time.Second)
	require.Zero(t, sweepAll(table))
	later(clock, (1<<32)*time.Millisecond-maxTickAge)
	e, ok := table.holders.get(k)
	require.True(t, ok)
	require.False(t, e.guarded(instantOf(clock.Now())))
}

func TestTableRouteExceptGoesByTheRingWithoutTheSkipped(t *testing.T) {
	table, _ := newTestTable(t, "r-0", "r-1", "r-2", "r-3")
	k := NSEKey("nse")
	holder := elsewhere(table, k)
	table.Registered(k, Registration{Member: holder})
	skipped := []string{holder}
	skip := func(name string) bool { return slices.Contains(skipped, name) }
	for len(skipped) < 4 {
		want, _ := NewRing(without(table.Ring().Members(), skipped)).Locate(k)
		got, ok := table.RouteExcept(k, []string{client, id(holder)}, skip)
		require.True(t, ok)
		require.Equal(t, Route{Member: want, Reason: ReasonRing}, got)
		skipped = append(skipped, want)
	}
	_, ok := table.RouteExcept(k, nil, skip)
	require.False(t, ok)

	route, ok := table.RouteExcept(k, nil, func(string) bool { return false })
	require.True(t, ok)
	require.Equal(t, Route{Member: holder, Reason: ReasonHolder}, route)
}

func TestTableGivesJoiningMembersWhatTheyHoldOnly(t *testing.T) {
	table, _ := newTestTable(t, "r-0", "r-1")
	before := table.Ring().Checksum()
	table.SetMembers(members("r-0", "r-1"), members("r-2"))
	table.SetID("r-2", id("r-2"))
	require.Equal(t, before, table.Ring().Checksum())

	requireRoute(t, table, NSEKey("by path"), []string{client, id("r-2")}, Route{Member: "r-2", Reason: ReasonPath})
	table.Observed(NSEKey("by event"), Record{PathIDs: []string{client, id("r-2")}})
	requireRoute(t, table, NSEKey("by event"), nil, Route{Member: "r-2", Reason: ReasonHolder})

	table.SetMembers(members("r-0", "r-1", "r-2"), members("r-2"))
	require.True(t, table.Ring().Has("r-2"), "a member in both sets is live")
}

func TestTableMovesKeysOnlyWhenTheirHolderLeaves(t *testing.T) {
	checkRings(t, func(t *rapid.T) {
		names := podNames(6)
		n := rapid.IntRange(1, 5).Draw(t, "members before")
		table, _ := newTestTable(t, names[:n]...)
		before := make(map[Key]string)
		for i := range 200 {
			k := NSEKey(fmt.Sprintf("nse-%d", i))
			route, _ := table.Route(k, nil)
			table.Registered(k, Registration{Member: route.Member, Expires: epoch.Add(time.Hour)})
			before[k] = route.Member
		}
		after := rapid.Permutation(names).Draw(t, "names")[:rapid.IntRange(1, 6).Draw(t, "members after")]
		table.SetMembers(members(after...), nil)
		for k, holder := range before {
			if slices.Contains(after, holder) {
				requireRoute(t, table, k, nil, Route{Member: holder, Reason: ReasonHolder})
			} else {
				requireRoute(t, table, k, nil, byRing(table, k))
			}
		}
		table.SetMembers(members(names[:n]...), nil)
		for k, holder := range before {
			requireRoute(t, table, k, nil, Route{Member: holder, Reason: ReasonHolder})
		}
	})
}

func TestTableCountsWhyKeysWereRemapped(t *testing.T) {
	table, clock := newTestTable(t, "r-0", "r-1", "r-2")
	k := NSEKey("nse")
	require.Equal(t, NotRemapped, table.Registered(k, Registration{Member: "r-0"}))
	require.Equal(t, NotRemapped, table.Registered(k, Registration{Member: "r-0"}))
	require.Equal(t, RemapMoved, table.Registered(k, Registration{Member: "r-1"}))
	table.SetMembers(members("r-0", "r-2"), nil)
	require.Equal(t, RemapLeft, table.Registered(k, Registration{Member: "r-0"}))
	later(clock, GuardTime)
	require.Equal(t, RemapMoved, table.Observed(k, Record{Member: "r-2"}))
	table.Unregistered(k)
	require.Equal(t, NotRemapped, table.Registered(k, Registration{Member: "r-0"}))
}

func TestTableCountsKeysByMember(t *testing.T) {
	names := []string{"r-0", "r-1", "r-2"}
	rapid.Check(t, func(t *rapid.T) {
		table, clock := newSmallTable(names)
		anyKey := rapid.Custom(func(t *rapid.T) Key {
			return Key{
				Space: rapid.SampledFrom([]Space{NSE, NS}).Draw(t, "space"),
				Name:  rapid.SampledFrom([]string{"a", "b", "c", "d@example.org"}).Draw(t, "name"),
			}
		})
		seen := make(map[Key]struct{})
		draw := func(t *rapid.T) (Key, string, time.Time) {
			k := anyKey.Draw(t, "key")
			seen[k] = struct{}{}
			return k, rapid.SampledFrom(append(names, "stranger", "")).Draw(t, "member"),
				clock.Now().Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "lifetime")) * time.Second)
		}
		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				k, member, expires := draw(t)
				table.Registered(k, Registration{Member: member, Expires: expires})
			},
			"unregister": func(t *rapid.T) {
				k, _, _ := draw(t)
				table.Unregistered(k)
			},
			"observe": func(t *rapid.T) {
				k, member, expires := draw(t)
				table.Observed(k, Record{Member: member, Expires: expires})
			},
			"delete": func(t *rapid.T) {
				k, member, _ := draw(t)
				table.Deleted(k, Record{Member: member})
			},
			"list": func(t *rapid.T) {
				listing := table.BeginListing(NSE)
				k, member, _ := draw(t)
				listing.Seen(k.Name, Record{Member: member})
				seen[NSEKey(k.Name)] = struct{}{}
				listing.End()
			},
			"sweep": func(*rapid.T) { sweepAll(table) },
			"wait": func(t *rapid.T) {
				later(clock, time.Duration(rapid.IntRange(1, 700).Draw(t, "seconds"))*time.Second)
			},
			"": func(t *rapid.T) {
				want, total := make(map[string]int), 0
				for _, name := range names {
					want[name] = 0
				}
				for k := range seen {
					e, ok := table.holders.get(k)
					if !ok || e.dead {
						continue
					}
					total++
					if e.seat != nobody {
						want[table.view.Load().places[e.seat].name]++
					}
				}
				require.Equal(t, want, table.KeysByMember())
				require.Equal(t, total, table.Keys())
			},
		})
	})
}

func TestTableKnowsOwners(t *testing.T) {
	table, clock := newTestTable(t, "r-0", "r-1")
	k := NSEKey("nse")
	require.Equal(t, OwnerUnknown, table.OwnedBy(k, client))

	table.Registered(k, Registration{Member: "r-0", Owner: client, Expires: epoch.Add(time.Hour)})
	require.Equal(t, Owner, table.OwnedBy(k, client))
	require.Equal(t, NotOwner, table.OwnedBy(k, "spiffe://example.org/impostor"))
	require.Equal(t, NotOwner, table.OwnedBy(k, ""))
	require.Equal(t, OwnerUnknown, table.OwnedBy(NSKey("nse"), client))

	table.SetMembers(members("r-1"), nil)
	later(clock, LeaveGrace+time.Second)
	require.Zero(t, sweepAll(table)+sweepAll(table))
	require.Equal(t, Owner, table.OwnedBy(k, client), "the owner must outlive the member that knew it")

	table.Unregistered(k)
	require.Equal(t, OwnerUnknown, table.OwnedBy(k, client))

	table.Observed(NSEKey("other"), Record{PathIDs: []string{client, id("gone")}})
	require.Equal(t, Owner, table.OwnedBy(NSEKey("other"), client))
}

func TestTableDropsWhatHasExpired(t *testing.T) {
	table, clock := newTestTable(t, "r-0")
	table.Registered(NSEKey("short"), Registration{Member: "r-0", Expires: epoch.Add(time.Minute)})
	table.Registered(NSEKey("long"), Registration{Member: "r-0", Expires: epoch.Add(time.Hour)})
	table.Registered(NSKey("endless"), Registration{Member: "r-0"})
	later(clock, time.Minute+ExpiryMargin)
	require.Zero(t, sweepAll(table))
	later(clock, time.Second)
	require.Equal(t, 1, sweepAll(table))
	requireRoute(t, table, NSEKey("short"), nil, Route{Member: "r-0", Reason: ReasonRing})
	requireRoute(t, table, NSEKey("long"), nil, Route{Member: "r-0", Reason: ReasonHolder})
	requireRoute(t, table, NSKey("endless"), nil, Route{Member: "r-0", Reason: ReasonHolder})
	require.Equal(t, 2, table.Keys())
}

func TestTableGivesMemoryBack(t *testing.T) {
	const keys = 20_000
	table, clock := newTestTable(t, "r-0")
	slots := func() int {
		n := 0
		for i := range table.holders.parts {
			if a := table.holders.parts[i].array.Load(); a != nil {
				n += len(a.slots)
			}
		}
		return n
	}
	for i := range keys {
		table.Registered(NSEKey(fmt.Sprint(i)), Registration{Member: "r-0", Expires: epoch.Add(time.Minute)})
	}
	require.Greater(t, slots(), keys)
	for i := range keys / 2 {
		table.Unregistered(NSEKey(fmt.Sprint(i)))
	}
	require.Equal(t, keys/2, table.Keys())
	later(clock, time.Hour)
	require.Equal(t, keys/2, sweepAll(table))
	require.Zero(t, table.Keys())
	require.Equal(t, parts*minSlots, slots())
}

func TestTableForgetsMembersThatLeftLongAgo(t *testing.T) {
	table, clock := newTestTable(t, "r-0", "r-1")
	k, endless := NSEKey("nse"), NSKey("ns")
	table.Registered(k, Registration{Member: "r-0", Expires: epoch.Add(time.Hour)})
	table.Registered(endless, Registration{Member: "r-0"})
	table.SetMembers(members("r-1"), nil)
	requireRoute(t, table, k, nil, Route{Member: "r-1", Reason: ReasonRing})
	require.Equal(t, map[string]int{"r-0": 2, "r-1": 0}, table.KeysByMember())

	later(clock, LeaveGrace)
	require.Zero(t, sweepAll(table))
	table.SetMembers(members("r-0", "r-1"), nil)
	requireRoute(t, table, k, nil, Route{Member: "r-0", Reason: ReasonHolder})

	table.SetMembers(members("r-1"), nil)
	later(clock, LeaveGrace+time.Second)
	require.Equal(t, 1, sweepAll(table), "a key without expiration would stay for ever")
	require.Equal(t, map[string]int{"r-1": 0}, table.KeysByMember())
	require.Equal(t, 1, table.Keys(), "the owner of a living key is worth knowing")
	require.Equal(t, NotRemapped, table.BeginListing(NSE).Seen(k.Name, Record{PathIDs: []string{client, id("r-0")}}))
	table.SetMembers(members("r-0", "r-1"), nil)
	requireRoute(t, table, k, nil, byRing(table, k))

	// Pods come and go under ever new names; seats are for those of the last minutes.
	for i := range 10 {
		name := fmt.Sprintf("pod-%d", i)
		table.SetMembers(members(name), nil)
		table.Registered(NSEKey(name), Registration{Member: name, Expires: clock.Now().Add(time.Hour)})
		requireRoute(t, table, NSEKey(name), nil, Route{Member: name, Reason: ReasonHolder})
		later(clock, LeaveGrace+time.Second)
		sweepAll(table)
	}
	require.LessOrEqual(t, len(table.view.Load().places), 8)
}

// Another registry-lb knows a member earlier, and gives it keys.
func TestTableAwaitsStrangers(t *testing.T) {
	const other = "spiffe://example.org/registry"
	newKey := func(table *Table, r Record) { table.Observed(NSEKey("nse"), r) }
	r2 := []string{client, id("r-2")}
	for _, row := range []struct {
		name    string
		happens func(table *Table, clock *clocktesting.FakePassiveClock)
		awaited bool
	}{
		{"when it has just got a new key", func(table *Table, _ *clocktesting.FakePassiveClock) {
			newKey(table, Record{PathIDs: r2})
		}, true},
		{"when it has just got a key from a member", func(table *Table, _ *clocktesting.FakePassiveClock) {
			table.Registered(NSEKey("nse"), Registration{Member: "r-0", Expires: epoch.Add(time.Minute)})
			newKey(table, Record{PathIDs: r2, Expires: epoch.Add(time.Minute + 1)})
		}, true},
		{"not when that is older than what is known", func(table *Table, _ *clocktesting.FakePassiveClock) {
			table.Observed(NSEKey("nse"), Record{PathIDs: []string{client, id("r-0")}, Expires: epoch.Add(time.Minute)})
			newKey(table, Record{PathIDs: r2, Expires: epoch.Add(time.Minute)})
		}, false},
		{"not any more after the grace", func(table *Table, clock *clocktesting.FakePassiveClock) {
			newKey(table, Record{PathIDs: r2})
			later(clock, StrangerGrace)
		}, false},
		{"again when it is heard of again", func(table *Table, clock *clocktesting.FakePassiveClock) {
			newKey(table, Record{PathIDs: r2, Expires: epoch.Add(time.Minute)})
			later(clock, StrangerGrace)
			newKey(table, Record{PathIDs: r2, Expires: epoch.Add(time.Minute + 1)})
		}, true},
		{"not when the event is repeated", func(table *Table, clock *clocktesting.FakePassiveClock) {
			newKey(table, Record{PathIDs: r2, Expires: epoch.Add(time.Minute)})
			later(clock, StrangerGrace)
			newKey(table, Record{PathIDs: r2, Expires: epoch.Add(time.Minute)})
		}, false},
		{"not when it was there before this registry-lb", func(table *Table, _ *clocktesting.FakePassiveClock) {
			table.BeginListing(NSE).Seen("nse", Record{PathIDs: r2})
		}, false},
		{"not when the watch began with it", func(table *Table, _ *clocktesting.FakePassiveClock) {
			newKey(table, Record{PathIDs: r2, Standing: true})
		}, false},
		{"but when there is news of it since", func(table *Table, _ *clocktesting.FakePassiveClock) {
			newKey(table, Record{PathIDs: r2, Expires: epoch.Add(time.Minute), Standing: true})
			newKey(table, Record{PathIDs: r2, Expires: epoch.Add(time.Minute + 1)})
		}, true},
		{"not when a member has left that has the ID", func(table *Table, _ *clocktesting.FakePassiveClock) {
			table.SetMembers(members("r-0", "r-1", "r-2"), nil)
			table.SetID("r-2", id("r-2"))
			table.SetMembers(members("r-0", "r-1"), nil)
			newKey(table, Record{PathIDs: r2})
		}, false},
		{"not when a member has not said yet who it is", func(table *Table, _ *clocktesting.FakePassiveClock) {
			table.SetMembers(members("r-0", "r-1", "r-3"), nil)
			newKey(table, Record{PathIDs: r2})
		}, false},
		{"not when members share the ID", func(table *Table, _ *clocktesting.FakePassiveClock) {
			table.SetID("r-0", other)
			table.SetID("r-1", other)
			newKey(table, Record{PathIDs: []string{client, other}})
		}, false},
		{"not when nobody says who it was", func(table *Table, _ *clocktesting.FakePassiveClock) {
			newKey(table, Record{})
		}, false},
		{"not when the key is deleted", func(table *Table, _ *clocktesting.FakePassiveClock) {
			newKey(table, Record{PathIDs: r2})
			table.Deleted(NSEKey("nse"), Record{PathIDs: r2})
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			table, clock := newTestTable(t, "r-0", "r-1")
			row.happens(table, clock)
			route, ok := table.Route(NSEKey("nse"), nil)
			require.True(t, ok)
			require.Equal(t, row.awaited, route.Awaited)
		})
	}
	table, _ := newTestTable(t, "r-0", "r-1")
	newKey(table, Record{PathIDs: r2})
	table.SetMembers(members("r-0", "r-1"), members("r-2"))
	table.SetID("r-2", id("r-2"))
	requireRoute(t, table, NSEKey("nse"), r2, Route{Member: "r-2", Reason: ReasonPath})
	newKey(table, Record{PathIDs: r2})
	requireRoute(t, table, NSEKey("nse"), nil, Route{Member: "r-2", Reason: ReasonHolder})

	far := NSEKey("nse@far.example.org")
	table.Observed(far, Record{PathIDs: []string{client, "spiffe://far.example.org/registry"}})
	requireRoute(t, table, far, nil, byRing(table, far))
}

func TestTableMemberThatComesBack(t *testing.T) {
	table, _ := newTestTable(t, "r-0", "r-1")
	k := NSEKey("nse")
	holder := elsewhere(table, k)
	other := without([]string{"r-0", "r-1"}, []string{holder})[0]
	table.Registered(k, Registration{Member: holder})

	table.SetMembers(members(other), nil)
	requireRoute(t, table, k, nil, Route{Member: other, Reason: ReasonRing})
	requireRoute(t, table, k, []string{client, id(holder)}, Route{Member: other, Reason: ReasonRing})
	table.Observed(NSEKey("meanwhile"), Record{PathIDs: []string{client, id(holder)}})

	t.Run("with the same UID is known as before", func(t *testing.T) {
		table.SetMembers(members("r-0", "r-1"), nil)
		requireRoute(t, table, k, nil, Route{Member: holder, Reason: ReasonHolder})
		requireRoute(t, table, NSEKey("meanwhile"), nil, Route{Member: holder, Reason: ReasonHolder})
		requireRoute(t, table, NSEKey("x"), []string{client, id(holder)}, Route{Member: holder, Reason: ReasonPath})
	})
	t.Run("with another UID has its keys, and its ID has to be learnt again", func(t *testing.T) {
		reborn := members("r-0", "r-1")
		for i := range reborn {
			if reborn[i].Name == holder {
				reborn[i].UID = "another"
			}
		}
		table.SetMembers(reborn, nil)
		requireRoute(t, table, k, nil, Route{Member: holder, Reason: ReasonHolder})
		requireRoute(t, table, NSEKey("x"), []string{client, id(holder)}, byRing(table, NSEKey("x")))
		table.SetID(holder, id("reborn"))
		requireRoute(t, table, NSEKey("x"), []string{client, id("reborn")}, Route{Member: holder, Reason: ReasonPath})
	})
}

// A member of a store of its own hangs, and another one takes over a key; then it goes on, with a newer copy.
func TestTableCopiesOfAMemberThatIsBack(t *testing.T) {
	for _, row := range []struct {
		name       string
		newProcess bool
		wait       time.Duration
		want       string
	}{
		{"do not count", false, 0, "r-1"},
		{"do not count for as long as they may be from before", false, LeaveGrace - time.Second, "r-1"},
		{"count after that", false, LeaveGrace, "r-0"},
		{"count if it is a new process", true, 0, "r-0"},
	} {
		t.Run(row.name, func(t *testing.T) {
			table, clock := newTestTable(t, "r-0", "r-1")
			k := NSEKey("nse")
			table.Registered(k, Registration{Member: "r-0", Expires: epoch.Add(time.Hour)})
			table.SetMembers(members("r-1"), nil)
			table.Registered(k, Registration{Member: "r-1", Expires: epoch.Add(time.Hour + time.Second)})
			both := members("r-0", "r-1")
			if row.newProcess {
				both[0].UID = "another"
			}
			table.SetMembers(both, nil)
			later(clock, row.wait)
			table.Observed(k, Record{Member: "r-0", Expires: epoch.Add(2 * time.Hour)})
			requireRoute(t, table, k, nil, Route{Member: row.want, Reason: ReasonHolder})
		})
	}
}

func TestTableIDThatSeveralMembersShareIdentifiesNobody(t *testing.T) {
	table, _ := newTestTable(t, "r-0", "r-1", "r-2")
	k := NSEKey("nse")
	table.SetID("r-1", id("r-0"))
	require.Equal(t, map[string][]string{id("r-0"): {"r-0", "r-1"}}, table.DuplicateIDs())
	requireRoute(t, table, k, []string{client, id("r-0")}, byRing(table, k))
	requireRoute(t, table, k, []string{id("r-2"), id("r-0")}, Route{Member: "r-2", Reason: ReasonPath})
	table.Observed(k, Record{PathIDs: []string{client, id("r-0")}})
	requireRoute(t, table, k, nil, byRing(table, k))

	table.SetMembers(members("r-1", "r-2"), nil)
	require.Empty(t, table.DuplicateIDs())
	requireRoute(t, table, k, []string{client, id("r-0")}, Route{Member: "r-1", Reason: ReasonPath})
}

func TestTableIDOfAMemberMayChange(t *testing.T) {
	table, _ := newTestTable(t, "r-0", "r-1", "r-2")
	table.SetID("r-0", id("new"))
	k := NSEKey("nse")
	requireRoute(t, table, k, []string{client, id("new")}, Route{Member: "r-0", Reason: ReasonPath})
	requireRoute(t, table, k, []string{client, id("r-0")}, byRing(table, k))
}

func TestListingDropsWhatItDoesNotContain(t *testing.T) {
	table, clock := newTestTable(t, "r-0", "r-1")
	for _, k := range []Key{
		NSEKey("listed"), NSEKey("vanished"), NSEKey("refreshed"), NSEKey("observed"), NSEKey("far@example.org"), NSKey("vanished"),
	} {
		table.Registered(k, Registration{Member: "r-0"})
	}
	later(clock, GuardTime)
	table.Registered(NSEKey("recent"), Registration{Member: "r-0"})
	broken := table.BeginListing(NSE)
	broken.Seen("listed", Record{Member: "r-0"})

	listing := table.BeginListing(NSE)
	listing.Seen("listed", Record{Member: "r-0"})
	table.Registered(NSEKey("refreshed"), Registration{Member: "r-0"})
	table.Observed(NSEKey("observed"), Record{Member: "r-0"})
	listing.Seen("new", Record{Member: "r-1"})
	require.Equal(t, 1, listing.End())

	for _, k := range []Key{
		NSEKey("listed"), NSEKey("refreshed"), NSEKey("observed"), NSEKey("far@example.org"), NSKey("vanished"), NSEKey("recent"),
	} {
		requireRoute(t, table, k, nil, Route{Member: "r-0", Reason: ReasonHolder})
	}
	requireRoute(t, table, NSEKey("new"), nil, Route{Member: "r-1", Reason: ReasonHolder})
	requireRoute(t, table, NSEKey("vanished"), nil, byRing(table, NSEKey("vanished")))

	later(clock, GuardTime)
	require.Equal(t, 5, table.BeginListing(NSE).End())
	require.Equal(t, 2, table.Keys())
}

func TestListingOfOneMemberLeavesOthersAlone(t *testing.T) {
	table, clock := newTestTable(t, "r-0", "r-1")
	table.Registered(NSEKey("a"), Registration{Member: "r-0"})
	table.Registered(NSEKey("b"), Registration{Member: "r-0"})
	table.Registered(NSEKey("c"), Registration{Member: "r-1"})
	table.Observed(NSEKey("d"), Record{})
	later(clock, GuardTime)
	first, second := table.BeginListingOf(NSE, "r-0"), table.BeginListingOf(NSE, "r-1")
	first.Seen("a", Record{})
	require.Equal(t, 1, first.End())
	requireRoute(t, table, NSEKey("a"), nil, Route{Member: "r-0", Reason: ReasonHolder})
	require.Equal(t, map[string]int{"r-0": 1, "r-1": 1}, table.KeysByMember())
	require.Equal(t, 1, second.End())
	require.Equal(t, map[string]int{"r-0": 1, "r-1": 0}, table.KeysByMember())
	require.Equal(t, 2, table.Keys())
}

func TestListingsMayBeMany(t *testing.T) {
	table, clock := newTestTable(t, "r-0")
	k := NSEKey("nse")
	for range 3 * generations / 2 {
		listing := table.BeginListing(NSE)
		listing.Seen(k.Name, Record{Member: "r-0"})
	}
	require.Zero(t, table.BeginListing(NS).End())
	require.Equal(t, 1, table.Keys())
	later(clock, GuardTime)
	require.Equal(t, 1, table.BeginListing(NSE).End())
}

func TestTableRouteAllocatesNothing(t *testing.T) {
	table, _ := newTestTable(t, podNames(8)...)
	held, free := NSEKey(strings.Repeat("held", 20)), NSEKey(strings.Repeat("free", 20))
	table.Registered(held, Registration{Member: "registry-k8s-0"})
	path := []string{client, id("registry-k8s-1")}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		table.Route(held, path)
		table.Route(free, path)
		table.Route(free, nil)
		table.OwnedBy(held, client)
	}))
}

// For the race detector, mostly; and a key that lives is never lost sight of.
func TestTableIsSafeForConcurrentUse(t *testing.T) {
	table, _ := newTestTable(t, "r-0", "r-1")
	held := NSEKey("held")
	table.Registered(held, Registration{Member: "r-0", Owner: client, Expires: epoch.Add(time.Hour)})
	const rounds = 300
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range rounds {
				k := NSEKey(fmt.Sprintf("%d-%d", worker, i))
				table.Registered(k, Registration{Member: "r-1", Expires: epoch.Add(time.Minute)})
				table.Observed(held, Record{Member: "r-0", Expires: epoch.Add(time.Hour)})
				if route, _ := table.Route(held, nil); route.Member != "r-0" {
					t.Errorf("held by %q", route.Member)
				}
				table.Unregistered(k)
				table.Deleted(NSEKey("x"), Record{PathIDs: []string{client, id("r-1")}})
				if table.OwnedBy(held, client) != Owner {
					t.Error("the owner is lost")
				}
			}
		})
	}
	all.Go(func() {
		for i := range 20 {
			listing := table.BeginListing(NSE)
			listing.Seen(held.Name, Record{Member: "r-0", Expires: epoch.Add(time.Hour)})
			listing.End()
			sweepAll(table)
			table.SetID("r-1", id(fmt.Sprint(i)))
			table.DuplicateIDs()
			table.Keys()
		}
	})
	all.Go(func() {
		table.SetMembers(members("r-0", "r-1", "r-2"), members("r-3"))
		table.SetMembers(members("r-0", "r-1"), nil)
	})
	all.Wait()
	require.Equal(t, 1, table.KeysByMember()["r-0"])
	require.Equal(t, []string{"r-0", "r-1"}, table.Ring().Members())
	require.Equal(t, []string{"r-0", "r-1", "r-2", "r-3"}, slices.Sorted(maps.Keys(table.KeysByMember())))
}

// An owner that was asked for stays what it was, whatever becomes of the key.
func TestOwnerOfIsASnapshot(t *testing.T) {
	t.Parallel()
	table, key := NewTable(clocktesting.NewFakePassiveClock(epoch)), NSEKey("name")
	table.SetMembers([]Member{{Name: "a"}}, nil)
	before := table.OwnerOf(key)
	table.Registered(key, Registration{Member: "a", Owner: "spiffe://owner"})
	during := table.OwnerOf(key)
	table.Unregistered(key)
	after := table.OwnerOf(key)
	for _, row := range []struct {
		name          string
		owner         KeyOwner
		owns, another Ownership
	}{
		{"before", before, OwnerUnknown, OwnerUnknown},
		{"during", during, Owner, NotOwner},
		{"after", after, OwnerUnknown, OwnerUnknown},
	} {
		require.Equal(t, row.owns, row.owner.Is("spiffe://owner"), row.name)
		require.Equal(t, row.another, row.owner.Is("spiffe://another"), row.name)
		require.Equal(t, row.owns != OwnerUnknown, row.owner.Known(), row.name)
	}
}
