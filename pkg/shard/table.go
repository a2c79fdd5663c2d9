// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Reason says why a key goes to a member.
type Reason string

const (
	// ReasonHolder says that the member holds the key, as far as the directory knows.
	ReasonHolder Reason = "holder"
	// ReasonPath says that, by the request's path_ids, the member holds the key.
	ReasonPath Reason = "path"
	// ReasonRing says that nobody is known to hold the key, and the ring gives it to the member.
	ReasonRing Reason = "ring"
)

// Route is where a key goes.
type Route struct {
	// Member is the name of the member.
	Member string
	// Reason says why.
	Reason Reason
	// Awaited says that another registry-lb has just given the key to a member that is not known here yet. Who waits
	// for that member, for [StrangerGrace] at most, keeps the key from getting a second holder.
	Awaited bool
}

// Table says which member serves a key: the one that holds it, or the one to which the ring gives it. It is safe for
// concurrent use. Routes take no lock, unless one of a thousand parts of the directory is being written to in the same
// moment, and changes of members never hold them up.
//
// What it does not guarantee: that the member holds the key really. Holders are learnt, see the package comment.
type Table struct {
	clock   clock.PassiveClock
	holders *holders
	view    atomic.Pointer[view]

	mu    sync.Mutex // of those who change view
	sweep sweep
}

// NewTable returns a table without members and keys.
func NewTable(c clock.PassiveClock) *Table {
	t := &Table{clock: c, holders: newHolders()}
	t.view.Store(newView())
	return t
}

// SetMembers tells the table which members may be given calls. Both sets are whole. Live members get the keys that
// they hold and, by the ring, keys that nobody holds; joining ones the keys that they hold, for example because
// another registry-lb took them for live somewhat earlier. A name in both is live.
//
// A member that is in neither set has left. For [LeaveGrace] it is remembered what it held: if it comes back under the
// same name, it gets what has not found another holder in the meantime. That goes for another UID too, although the
// memory of the earlier process is lost: no other member has it, so moving the keys would gain nothing. Only the ID of
// the member is forgotten when its UID changes.
func (t *Table) SetMembers(live, joining []Member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.view.Store(t.view.Load().withMembers(live, joining, t.clock.Now()))
}

// SetID tells the table the SPIFFE ID of the member called name. It is cheap if the table knows. An ID of somebody who
// is not a member is not remembered.
func (t *Table) SetID(name, id string) {
	if v := t.view.Load(); v.places[v.seats[name]].id == id {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.view.Load()
	s := v.seats[name]
	if !v.here(s) {
		return
	}
	t.view.Store(v.change(func(places []place) []place {
		places[s].id = id
		return places
	}))
}

// DuplicateIDs returns the SPIFFE IDs that more than one member has, with the names of those members, sorted. Such an
// ID identifies none of them: path_ids say nothing then, and keys are routed by own traffic and the ring alone. The map
// must not be changed.
func (t *Table) DuplicateIDs() map[string][]string { return t.view.Load().duplicates }

// Route returns where a call about k goes whose request has these path_ids, or false if there is no member to give it
// to. The holder in the directory counts first: a request can't move a key that it does not own. If there is none, or
// it has left, the last ID in pathIDs that is a member's counts, and then the ring.
func (t *Table) Route(k Key, pathIDs []string) (Route, bool) {
	holder := t.holders.seat(k)
	// Seats are in the view before they are in the directory, so the view has to be read second.
	v := t.view.Load()
	if v.here(holder) {
		return Route{Member: v.places[holder].name, Reason: ReasonHolder}, true
	}
	if len(pathIDs) > 0 {
		if s := v.identify(pathIDs); v.here(s) {
			return Route{Member: v.places[s].name, Reason: ReasonPath}, true
		}
	}
	name, ok := v.ring.Locate(k)
	route := Route{Member: name, Reason: ReasonRing}
	if holder == stranger {
		e, _ := t.holders.get(k)
		route.Awaited = e.awaited(instantOf(t.clock.Now()))
	}
	return route, ok
}

// Location is where a key is, for people.
type Location struct {
	Route
	// Since is when the member came to hold the key, to the second. It is zero if that was before the table was told
	// about the key, or if the member does not hold it.
	Since time.Time
	// Expires is the key's expiration time as the store has it; the zero time if there is none, or nobody holds the key.
	Expires time.Time
}

// Locate returns where a call about k goes whose request has no path_ids, as [Table.Route] does, and since when.
func (t *Table) Locate(k Key) (Location, bool) {
	e, _ := t.holders.get(k)
	v := t.view.Load()
	if v.here(e.seat) {
		return Location{Route{Member: v.places[e.seat].name, Reason: ReasonHolder}, e.since.time(), e.expires.time()}, true
	}
	route, ok := t.Route(k, nil)
	return Location{Route: route}, ok
}

// RouteExcept returns where a call about k goes if the members for which skip is true can't be reached. If that is so
// for the one that Route returns, it is the member that gets k in the ring without the skipped ones: other registry-lb
// replicas come to the same result when the member has left.
func (t *Table) RouteExcept(k Key, pathIDs []string, skip func(name string) bool) (Route, bool) {
	route, ok := t.Route(k, pathIDs)
	if ok && !skip(route.Member) {
		return route, true
	}
	name, ok := t.Ring().LocateExcept(k, skip)
	return Route{Member: name, Reason: ReasonRing}, ok
}

// Ring returns the ring of the live members.
func (t *Table) Ring() *Ring { return t.view.Load().ring }

// Keys returns how many living keys are in the directory. It takes as long as there are members.
func (t *Table) Keys() int {
	n := int64(0)
	for _, p := range t.view.Load().places {
		n += p.keys.Load()
	}
	return int(n)
}

// KeysByMember returns how many keys each member holds, as far as the directory knows, members that left and are
// remembered included.
func (t *Table) KeysByMember() map[string]int {
	v := t.view.Load()
	keys := make(map[string]int, len(v.seats))
	for name, s := range v.seats {
		keys[name] = int(v.places[s].keys.Load())
	}
	return keys
}
