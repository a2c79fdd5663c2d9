// SPDX-License-Identifier: Apache-2.0

package shard

// Listing compares the directory with a complete listing of the keys of one space, to find what is in the directory
// only: events that it was deleted can be lost. Nothing is copied, and calls go on meanwhile. A listing that breaks off
// is not ended, and has no effect but that of its items.
type Listing struct {
	table      *Table
	space      Space
	member     string
	generation uint16
	began      instant
}

// BeginListing begins the comparison with a listing of all keys of the space. It has to be called before the listing is
// asked for.
func (t *Table) BeginListing(space Space) *Listing {
	return t.BeginListingOf(space, "")
}

// BeginListingOf is BeginListing for a listing of the keys that one member holds, as one gets from a partitioned store.
// Other members' keys are left alone.
func (t *Table) BeginListingOf(space Space, member string) *Listing {
	return &Listing{
		table:      t,
		space:      space,
		member:     member,
		generation: uint16(t.holders.generation.Add(1) % generations),
		began:      instantOf(t.clock.Now()),
	}
}

// Seen takes in an item of the listing, as [Table.Observed] does: but it is newer than own traffic that was over when
// the listing began.
func (l *Listing) Seen(name string, r Record) Remap {
	if r.Member == "" {
		r.Member = l.member
	}
	k := Key{Space: l.space, Name: name}
	return l.table.learn(k, func(v *view, e entry, _ bool, at moment) (entry, bool, Remap) {
		c := l.table.claim(v, k, r)
		c.listed, c.read = true, !e.aliveSince(l.generation)
		e, remap := e.observed(c, at)
		return e, true, remap
	})
}

// End drops the keys that were not in the listing and of which nothing else was heard since it began, and returns how
// many. Keys of other domains stay, which are in no listing, and keys about which there was own traffic less than
// [GuardTime] before the listing.
func (l *Listing) End() int {
	dropped := 0
	for i := range l.table.holders.parts {
		dropped += l.table.each(&l.table.holders.parts[i], func(v *view, e entry) (entry, bool) {
			return e, !l.misses(v, e)
		})
	}
	return dropped
}

func (l *Listing) misses(v *view, e entry) bool {
	if l.member != "" && (e.seat < firstSeat || v.places[e.seat].name != l.member) {
		return false
	}
	return e.space == l.space && !e.remote && !e.dead && !e.aliveSince(l.generation) && !e.guarded(l.began)
}
