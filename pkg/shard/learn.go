// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"strings"
	"time"
)

// Registration is what a Register that succeeded through this registry-lb tells about a key.
type Registration struct {
	// Member is the name of the member that answered.
	Member string
	// Owner is the SPIFFE ID that registered the key, which is the first of the path_ids; empty if not known.
	Owner string
	// Expires is the expiration time that the store has now; the zero time if there is none. Events with a later one are
	// newer than this Register, others are not.
	Expires time.Time
}

// Record is what an event of the watch, or an item of a listing, tells about a living key.
type Record struct {
	// PathIDs are the path_ids: the owner's SPIFFE ID first, the holder's last.
	PathIDs []string
	// Member is the name of the member that holds the key, if that is known otherwise than by PathIDs: in a
	// partitioned store it is the member that sent the event. Empty if not known.
	Member string
	// Expires is the expiration time; the zero time if there is none.
	Expires time.Time
	// Standing says that the record tells what was so already before there was a call: then the holder has not just got
	// the key. A watch begins with such records, and they do not look different from others.
	Standing bool
}

// Registered tells the directory that a Register of k succeeded through this registry-lb. That is the best there is to
// know: for [GuardTime] no event says otherwise, unless it is newer. It returns whether k had another holder before.
func (t *Table) Registered(k Key, r Registration) Remap {
	return t.learn(k, func(v *view, e entry, _ bool, at moment) (entry, bool, Remap) {
		e, remap := e.registered(claim{
			seat:    v.seats[r.Member],
			owner:   t.holders.ownerHash(r.Owner),
			expires: instantOf(r.Expires),
		}, at)
		return e, true, remap
	})
}

// Unregistered tells the directory that an Unregister of k succeeded through this registry-lb. For [GuardTime] no
// event of the life that ended brings k back, as far as that life was known; what was not, is known to have ended when
// the event comes that it was deleted.
func (t *Table) Unregistered(k Key) {
	t.learn(k, func(_ *view, e entry, known bool, at moment) (entry, bool, Remap) {
		return e.unregistered(at), known, NotRemapped
	})
}

// Observed tells the directory that, by an event of the watch, k lives. Events may come late, twice, in the wrong
// order or not at all. It returns whether k has another holder now.
func (t *Table) Observed(k Key, r Record) Remap {
	return t.learn(k, func(v *view, e entry, _ bool, at moment) (entry, bool, Remap) {
		e, remap := e.observed(t.claim(v, k, r), at)
		return e, true, remap
	})
}

// Deleted tells the directory that, by an event of the watch, k was deleted while r said who held it.
func (t *Table) Deleted(k Key, r Record) {
	t.learn(k, func(v *view, e entry, known bool, at moment) (entry, bool, Remap) {
		return e, known && e.survives(t.claim(v, k, r), at), NotRemapped
	})
}

func (t *Table) claim(v *view, k Key, r Record) claim {
	c := claim{seat: v.seats[r.Member], expires: instantOf(r.Expires), copied: r.Member != "", standing: r.Standing}
	if r.Member == "" {
		c.seat = v.identify(r.PathIDs)
		if c.seat == nobody && !isRemote(k) && v.isStranger(r.PathIDs) {
			c.seat = stranger
		}
	}
	if len(r.PathIDs) > 0 {
		c.owner = t.holders.ownerHash(r.PathIDs[0])
	}
	return c
}

// isRemote says whether the key is another domain's.
func isRemote(k Key) bool { return strings.Contains(k.Name, "@") }

// learn changes what is known about k.
func (t *Table) learn(k Key, change func(v *view, e entry, known bool, at moment) (entry, bool, Remap)) Remap {
	now := instantOf(t.clock.Now())
	remap := NotRemapped
	p, kh := t.holders.hash(k)
	p.update(kh, func(before entry, known bool) (entry, bool) {
		// Read under the lock, because of Sweep: once it has been here, nobody knows a forgotten member any more.
		v := t.view.Load()
		if !known {
			before = entry{space: k.Space, remote: isRemote(k)}
		}
		at := moment{attendance: v, now: now, generation: t.holders.now()}
		var after entry
		var keep bool
		after, keep, remap = change(v, before, known, at)
		v.count(before, known, after, keep)
		return after, keep
	})
	return remap
}

// count keeps the number of keys by seat when an entry changes.
func (v *view) count(before entry, known bool, after entry, keep bool) {
	was, is := known && !before.dead, keep && !after.dead
	if was && is && before.seat == after.seat {
		return
	}
	if was {
		v.places[before.seat].keys.Add(-1)
	}
	if is {
		v.places[after.seat].keys.Add(1)
	}
}

// Ownership is what is known about who owns a key.
type Ownership uint8

const (
	// OwnerUnknown says that the key is not in the directory, or its owner is not known.
	OwnerUnknown Ownership = iota
	// Owner says that the key belongs to who asks.
	Owner
	// NotOwner says that the key belongs to another one.
	NotOwner
)

// OwnedBy returns whether the living key k belongs to the SPIFFE ID. The directory keeps 64 bits in place of the ID,
// with a seed of its own in each process: an impostor can't find an ID that passes for another one.
func (t *Table) OwnedBy(k Key, id string) Ownership {
	return t.OwnerOf(k).Is(id)
}

// OwnerOf returns who owns the living key k now, to be compared with SPIFFE IDs at any later time.
func (t *Table) OwnerOf(k Key) KeyOwner {
	e, ok := t.holders.get(k)
	if !ok || e.dead {
		return KeyOwner{table: t}
	}
	return KeyOwner{table: t, hash: e.owner}
}

// KeyOwner is who owned a key when its table was asked. It does not change.
type KeyOwner struct {
	table *Table
	hash  uint64 // 0: not known
}

// Known is false if the key was not in the directory, or its owner was not known.
func (o KeyOwner) Known() bool { return o.hash != 0 }

// Is says whether it is the one with this SPIFFE ID.
func (o KeyOwner) Is(id string) Ownership {
	switch {
	case !o.Known():
		return OwnerUnknown
	case o.hash == o.table.holders.ownerHash(id):
		return Owner
	default:
		return NotOwner
	}
}
