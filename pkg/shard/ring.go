// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// MaxMembers is how many members a ring can have: as many as it has partitions. Of longer lists the members with the
// greatest names are left out.
const MaxMembers = partitions

// Ring says which member gets a key that no member holds. It is an immutable snapshot: safe for concurrent use, no
// locks. It is a pure function of the set of members' names.
type Ring struct {
	candidates []*candidate // in the order of members
	members    []string     // sorted, each once
	table      []uint16     // partition -> index into members; nil if there are no members
	checksum   uint64
}

// NewRing returns the ring of the members with these names, in whatever order. Duplicates count once. A ring of no
// members is valid and locates nothing.
func NewRing(names []string) *Ring {
	return new(Ring).Next(names)
}

// Next returns the ring of the members with these names, exactly as NewRing does, in less time: what r knows about
// members of both sets is not computed again. r stays as it is.
func (r *Ring) Next(names []string) *Ring {
	members := slices.Sorted(slices.Values(names))
	members = slices.Compact(members)
	if len(members) > MaxMembers {
		members = members[:MaxMembers]
	}
	if r.table != nil && slices.Equal(members, r.members) {
		return r
	}
	next := &Ring{members: members, candidates: make([]*candidate, len(members))}
	for i, name := range members {
		next.candidates[i] = newCandidate(name, i)
	}
	if len(members) > 0 {
		next.table = make([]uint16, partitions)
		next.fill(r)
	}
	next.checksum = next.sum()
	return next
}

// fill computes the table. In strips where nobody who owned anything has left, only the former owners and the
// newcomers can own anything now.
func (r *Ring) fill(old *Ring) {
	moved := make([]*candidate, len(old.members)) // old index -> candidate now, nil: has left
	newcomers := make([]*candidate, 0, len(r.members))
	for i, name := range old.members {
		if j, ok := slices.BinarySearch(r.members, name); ok {
			moved[i] = r.candidates[j]
		}
	}
	for i, name := range r.members {
		if _, ok := slices.BinarySearch(old.members, name); !ok {
			newcomers = append(newcomers, r.candidates[i])
		}
	}
	entrants := make([]*candidate, 0, places+len(newcomers))
	for strip := range strips {
		now, ok := old.owners(strip, moved)
		if !ok {
			now = contest(strip, r.candidates)
		} else if winners := now.beatenBy(newStripHasher(strip), newcomers); len(winners) > 0 {
			entrants = append(now.appendTo(entrants[:0]), winners...)
			now = contest(strip, entrants)
		}
		for place, c := range now {
			r.table[strip*places+place] = c.index
		}
	}
}

// owners returns who owned the places of a strip, as candidates of the next ring; false if one of them has left.
func (r *Ring) owners(strip int, moved []*candidate) (owners, bool) {
	var o owners
	if r.table == nil {
		return o, false
	}
	for place, index := range r.table[strip*places : (strip+1)*places] {
		if o[place] = moved[index]; o[place] == nil {
			return o, false
		}
	}
	return o, true
}

// Locate returns the member that gets k, or false if the ring has no members.
func (r *Ring) Locate(k Key) (member string, ok bool) {
	return r.locate(hashKey(k))
}

func (r *Ring) locate(hash uint64) (string, bool) {
	if r.table == nil {
		return "", false
	}
	return r.members[r.table[hash>>(64-partitionBits)]], true
}

// LocateExcept returns the member that gets k in the ring of the members without those for which skip is true, or
// false if that ring has no members. It costs as much as Locate if the member of k is not skipped, and some
// microseconds otherwise. It is for the seconds in which a member has failed and is still in the ring.
func (r *Ring) LocateExcept(k Key, skip func(name string) bool) (member string, ok bool) {
	return r.locateExcept(hashKey(k), skip)
}

func (r *Ring) locateExcept(hash uint64, skip func(name string) bool) (string, bool) {
	member, ok := r.locate(hash)
	if !ok || !skip(member) {
		return member, ok
	}
	rest := make([]*candidate, 0, len(r.members))
	for i, name := range r.members {
		if name != member && !skip(name) {
			rest = append(rest, r.candidates[i])
		}
	}
	if len(rest) == 0 {
		return "", false
	}
	partition := hash >> (64 - partitionBits)
	return r.members[contest(int(partition/places), rest)[partition%places].index], true
}

// Members returns the names of the members, sorted. The slice belongs to the ring and must not be changed.
func (r *Ring) Members() []string { return r.members }

// Has reports whether name is a member.
func (r *Ring) Has(name string) bool {
	_, ok := slices.BinarySearch(r.members, name)
	return ok
}

// Partitions returns the number of partitions, which is the same for all rings.
func (r *Ring) Partitions() int { return partitions }

// Shares returns the share of the partitions, 0 to 1, that each member has.
func (r *Ring) Shares() map[string]float64 {
	counts := make([]int, len(r.members))
	for _, index := range r.table {
		counts[index]++
	}
	shares := make(map[string]float64, len(r.members))
	for i, name := range r.members {
		shares[name] = float64(counts[i]) / partitions
	}
	return shares
}

// Checksum returns a hash of the members and the table. Rings of the same members have the same checksum in every
// process, so that people and alerts can see whether registry-lb replicas agree.
func (r *Ring) Checksum() uint64 { return r.checksum }

func (r *Ring) sum() uint64 {
	d := xxhash.New()
	buf := make([]byte, 0, 2*partitions)
	for _, name := range r.members {
		buf = binary.LittleEndian.AppendUint64(buf[:0], uint64(len(name)))
		_, _ = d.Write(buf)
		_, _ = d.WriteString(name)
	}
	buf = buf[:0]
	for _, index := range r.table {
		buf = binary.LittleEndian.AppendUint16(buf, index)
	}
	_, _ = d.Write(buf)
	return d.Sum64()
}
