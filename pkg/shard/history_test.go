// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

// history is the life of one NSE as it really is, and the events of the watch about it that are under way.
type history struct {
	table *Table
	clock *clocktesting.FakePassiveClock
	key   Key

	holder  string // empty: the NSE does not live
	expires time.Time
	own     bool // the last that happened, happened through this registry-lb, and the holder has been here since
	events  []event
	newest  event // of all
	calls   time.Duration
}

type event struct {
	sent    time.Time
	deleted bool
	record  Record
}

// maxDelay is how long an event may take in this test. The rules promise something if that is less than GuardTime.
const maxDelay = GuardTime - time.Second

// lifetime is that of the NSE's tokens. Two calls are never made in the same nanosecond.
const lifetime = 10 * time.Minute

func (h *history) register(member string, own bool) {
	h.calls++
	h.holder, h.expires, h.own = member, h.clock.Now().Add(lifetime+h.calls), own
	if own {
		h.table.Registered(h.key, Registration{Member: member, Owner: client, Expires: h.expires})
	}
	h.emit(false)
}

// An Unregister outweighs older events about what the directory knew.
func (h *history) unregister(own bool) {
	e, ok := h.table.holders.get(h.key)
	knew := ok && !e.dead && e.expires == instantOf(h.expires)
	if own {
		h.table.Unregistered(h.key)
	}
	h.emit(true)
	h.holder, h.own = "", own && knew
}

func (h *history) emit(deleted bool) {
	h.events = append(h.events, event{sent: h.clock.Now(), deleted: deleted, record: h.record()})
	h.newest = h.events[len(h.events)-1]
}

func (h *history) record() Record {
	return Record{PathIDs: []string{client, id(h.holder)}, Expires: h.expires}
}

func (h *history) deliver(e event) {
	if e.deleted {
		h.table.Deleted(h.key, e.record)
	} else {
		h.table.Observed(h.key, e.record)
	}
}

// known returns what the table takes for the holder, or that it takes the NSE for dead.
func (h *history) known() (holder string, alive bool) {
	e, ok := h.table.holders.get(h.key)
	return h.table.view.Load().places[e.seat].name, ok && !e.dead
}

// presence makes a member leave or come back, without a new ring, which has nothing to do with it.
func (h *history) presence(member string, p presence) {
	v := h.table.view.Load()
	h.table.view.Store(v.change(func(places []place) []place {
		places[v.seats[member]].presence, places[v.seats[member]].left = p, h.clock.Now()
		return places
	}))
}

// Events come late, in any order, twice or not at all. Still: what happened last through this registry-lb is what the
// directory says; and what happened elsewhere it says after the next listing.
func TestHistoryOwnTrafficIsNeverUndoneByOlderEvents(t *testing.T) {
	names := []string{"r-0", "r-1", "r-2"}
	rapid.Check(t, func(t *rapid.T) {
		table, clock := newSmallTable(names)
		h := &history{table: table, clock: clock, key: NSEKey("nse")}
		here := func() []string {
			v := h.table.view.Load()
			return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !v.here(v.seats[name]) })
		}
		register := func(t *rapid.T, own bool) {
			h.register(rapid.SampledFrom(here()).Draw(t, "member"), own)
		}
		t.Repeat(map[string]func(*rapid.T){
			"register here":      func(t *rapid.T) { register(t, true) },
			"register elsewhere": func(t *rapid.T) { register(t, false) },
			"unregister": func(t *rapid.T) {
				if h.holder != "" {
					h.unregister(rapid.Bool().Draw(t, "own"))
				}
			},
			"deliver": func(t *rapid.T) {
				if len(h.events) > 0 {
					i := rapid.IntRange(0, len(h.events)-1).Draw(t, "event")
					h.deliver(h.events[i])
					if !rapid.Bool().Draw(t, "again") {
						h.events = slices.Delete(h.events, i, i+1)
					}
				}
			},
			"deliver the newest": func(t *rapid.T) {
				if clock.Since(h.newest.sent) > maxDelay {
					return
				}
				h.deliver(h.newest)
				holder, alive := h.known()
				switch {
				case h.holder == "":
					require.False(t, alive)
				case slices.Contains(here(), h.holder):
					require.True(t, alive)
					require.Equal(t, h.holder, holder)
				}
			},
			"wait": func(t *rapid.T) {
				later(clock, time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds"))*time.Second)
				h.events = slices.DeleteFunc(h.events, func(e event) bool { return clock.Since(e.sent) > maxDelay })
				if h.holder != "" && clock.Now().After(h.expires) {
					h.unregister(false)
				}
			},
			"sweep": func(*rapid.T) { sweepAll(h.table) },
			"leave or come back": func(t *rapid.T) {
				member := rapid.SampledFrom(names).Draw(t, "member")
				switch {
				case !slices.Contains(here(), member):
					h.presence(member, live)
				case len(here()) > 1:
					h.presence(member, left)
					h.own = h.own && h.holder != member
				}
			},
			"settle": func(t *rapid.T) {
				h.events = nil
				later(clock, GuardTime)
				if h.holder == "" || !slices.Contains(here(), h.holder) {
					register(t, false)
					h.events = nil
				}
				listing := h.table.BeginListing(h.key.Space)
				listing.Seen(h.key.Name, h.record())
				require.Zero(t, listing.End())
				holder, alive := h.known()
				require.True(t, alive)
				require.Equal(t, h.holder, holder, "after a listing")

				later(clock, GuardTime)
				h.unregister(false)
				h.events = nil
				require.Equal(t, 1, h.table.BeginListing(h.key.Space).End())
				_, alive = h.known()
				require.False(t, alive, "after a listing without it")
			},
			"": func(t *rapid.T) {
				if !h.own {
					return
				}
				holder, alive := h.known()
				require.Equal(t, h.holder, holder)
				require.Equal(t, h.holder != "", alive)
			},
		})
	})
}

// A registry-lb that sees a member earlier than another one gives it new keys, which the other must not move.
func TestHistoryKeysOfAJoiningMemberStayThere(t *testing.T) {
	early, _ := newTestTable(t, "r-0", "r-1", "r-2")
	late, _ := newTestTable(t, "r-0", "r-1")
	late.SetMembers(members("r-0", "r-1"), members("r-2"))
	late.SetID("r-2", id("r-2"))
	k := NSEKey("nse-0")
	for i := 0; byRing(early, k).Member != "r-2"; i++ {
		k = NSEKey("nse-" + string(rune('0'+i)))
	}
	early.Registered(k, Registration{Member: "r-2"})
	path := []string{client, id("r-2")}
	requireRoute(t, late, k, path, Route{Member: "r-2", Reason: ReasonPath})
	late.Observed(k, Record{PathIDs: path})
	requireRoute(t, late, k, nil, Route{Member: "r-2", Reason: ReasonHolder})
	require.Equal(t, NotRemapped, late.Registered(k, Registration{Member: "r-2"}))
}
