// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// presence is whether a member is there.
type presence uint8

const (
	// vacant seats have no member and no keys.
	vacant presence = iota
	// live members get keys that nobody holds, and those that they hold.
	live
	// joining members get keys that they hold.
	joining
	// left members get none, but are remembered.
	left
	// forgotten members are not remembered. The next pass of Sweep takes their keys away, and then the seat is vacant.
	forgotten
)

// place is a member as the directory knows it.
type place struct {
	name, uid string
	id        string // SPIFFE ID; empty: not known
	presence  presence
	left      time.Time
	returned  time.Time     // the same process, after it had left; zero: it never has
	keys      *atomic.Int64 // that live and are in the directory with this seat
}

// here says whether the member may be given calls.
func (p *place) here() bool { return p.presence == live || p.presence == joining }

// known says whether it makes sense to remember that the member holds a key.
func (p *place) known() bool { return p.here() || p.presence == left }

// view is what a table knows about members: an immutable snapshot, except for the counters.
type view struct {
	ring       *Ring
	places     []place             // by seat; the first ones are nobody's and strangers'
	seats      map[string]seat     // by name, of the known
	ids        map[string]seat     // by SPIFFE ID, where it identifies a known member
	duplicates map[string][]string // SPIFFE IDs that several members have who are here
	identified bool                // all who are here have shown a SPIFFE ID
}

func newView() *view {
	return &view{ring: NewRing(nil), places: []place{nobody: {keys: new(atomic.Int64)}, stranger: {keys: new(atomic.Int64)}}}
}

// change returns another view: do gets the copied places and may append to them.
func (v *view) change(do func(places []place) []place) *view {
	next := &view{ring: v.ring, places: do(slices.Clone(v.places))}
	next.index()
	return next
}

func (v *view) index() {
	v.seats = make(map[string]seat, len(v.places))
	v.ids = make(map[string]seat, len(v.places))
	shared := make(map[string][]string, len(v.places))
	v.identified = true
	for i := range v.places {
		p := &v.places[i]
		if !p.known() {
			continue
		}
		v.seats[p.name] = seat(i)
		if p.id == "" {
			v.identified = v.identified && !p.here()
			continue
		}
		if p.here() {
			shared[p.id] = append(shared[p.id], p.name)
			v.ids[p.id] = seat(i)
		} else if other, ok := v.ids[p.id]; !ok || !v.here(other) && v.places[other].left.Before(p.left) {
			v.ids[p.id] = seat(i)
		}
	}
	v.duplicates = shared
	maps.DeleteFunc(shared, func(id string, names []string) bool {
		slices.Sort(names)
		if len(names) > 1 {
			delete(v.ids, id)
		}
		return len(names) == 1
	})
}

func (v *view) here(s seat) bool { return v.places[s].here() }

// back says whether the member had left, and has returned so recently that it may have copies from before. They live as
// long as a token, like those of members that left.
func (v *view) back(s seat, now instant) bool {
	returned := v.places[s].returned
	return !returned.IsZero() && now.since(instantOf(returned)) < LeaveGrace
}

// withMembers returns the view after the members here have become those.
func (v *view) withMembers(lives, joins []Member, now time.Time) *view {
	wanted := make(map[string]place, len(lives)+len(joins))
	for _, m := range joins {
		wanted[m.Name] = place{name: m.Name, uid: m.UID, presence: joining}
	}
	names := make([]string, 0, len(lives))
	for _, m := range lives {
		wanted[m.Name] = place{name: m.Name, uid: m.UID, presence: live}
		names = append(names, m.Name)
	}
	next := v.change(func(places []place) []place {
		for i := range places {
			p := &places[i]
			if p.presence == vacant {
				continue
			}
			w, ok := wanted[p.name]
			switch {
			case ok:
				switch {
				case p.uid != w.uid:
					// A new life of the member: the place and its keys stay, but who it is has to be learnt again.
					p.uid, p.id, p.returned = w.uid, "", time.Time{}
				case !p.here():
					p.returned = now
				}
				p.presence = w.presence
				delete(wanted, p.name)
			case p.here():
				p.presence, p.left = left, now
			}
		}
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			places = seated(places, wanted[name])
		}
		return places
	})
	next.ring = v.ring.Next(names)
	return next
}

// seated gives p a seat.
func seated(places []place, p place) []place {
	p.keys = new(atomic.Int64)
	for i := int(firstSeat); i < len(places); i++ {
		if places[i].presence == vacant {
			places[i] = p
			return places
		}
	}
	if len(places) <= math.MaxUint16 {
		places = append(places, p)
	}
	return places
}

// isStranger says whether path_ids end with a member that is not known: the last to handle a call is a registry, and all
// that are known have shown their IDs.
func (v *view) isStranger(pathIDs []string) bool {
	if len(pathIDs) == 0 || !v.identified {
		return false
	}
	last := pathIDs[len(pathIDs)-1]
	_, known := v.ids[last]
	_, ambiguous := v.duplicates[last]
	return !known && !ambiguous
}

// identify returns the seat of the member who, by path_ids, was the last to handle a call: the last ID of one that is
// here counts, or else the last of one that is remembered.
func (v *view) identify(pathIDs []string) seat {
	remembered := nobody
	for _, id := range slices.Backward(pathIDs) {
		if s, ok := v.ids[id]; ok {
			if v.here(s) {
				return s
			}
			if remembered == nobody {
				remembered = s
			}
		}
	}
	return remembered
}
