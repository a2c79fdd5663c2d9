// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"encoding/binary"

	"github.com/buraksezer/consistent"
	"github.com/cespare/xxhash/v2"
)

const (
	// stripBits is the logarithm of the number of strips. In each of the 2048 strips a member has one point, and the
	// spread of the members' shares goes down with the root of the number of strips: see the package comment.
	stripBits = 11
	strips    = 1 << stripBits

	// placeBits is the logarithm of the number of partitions in a strip. With 32 of them a ring of 64 members deviates
	// by 2.8 % (standard deviation), with 64 by 2.4 %, at twice the time and memory.
	placeBits = 5
	places    = 1 << placeBits

	partitionBits = stripBits + placeBits
	partitions    = 1 << partitionBits
)

// candidate is a member as the library sees it.
type candidate struct {
	index uint16
	id    uint64
	token string
}

// newCandidate returns the member called name. Its id stands for the name, so that it does not matter what the name
// is made of and how long it is. Two names with one id, which nobody meets by chance, would share their points, and
// the greater name would get all of them.
func newCandidate(name string, index int) *candidate {
	return candidateWithID(xxhash.Sum64String(name), index)
}

func candidateWithID(id uint64, index int) *candidate {
	token := binary.BigEndian.AppendUint64(make([]byte, 0, tokenSize), id)
	return &candidate{index: uint16(index), id: id, token: string(token)}
}

// String returns the token that stands for the member: its id as 8 bytes. The library makes the key of the member's
// point of it: "0:" and the token.
func (c *candidate) String() string { return c.token }

// stripHasher places partitions and points on the circle of one strip.
type stripHasher struct {
	seed uint64
}

func newStripHasher(strip int) stripHasher {
	return stripHasher{seed: mix(uint64(strip+1) * golden)}
}

const (
	// placeKeySize is the length of the keys by which the library asks where a partition is. The keys of points are
	// longer: an index, a colon and a token.
	placeKeySize = 8
	tokenSize    = 8
)

// Sum64 implements consistent.Hasher: partitions are evenly spaced, and a member's point has a random place of its
// own in each strip.
func (h stripHasher) Sum64(key []byte) uint64 {
	if len(key) == placeKeySize {
		return binary.LittleEndian.Uint64(key) << (64 - placeBits)
	}
	return h.point(binary.BigEndian.Uint64(key[len(key)-tokenSize:]))
}

func (h stripHasher) point(id uint64) uint64 { return mix(id ^ h.seed) }

// owners is who owns each place of a strip.
type owners [places]*candidate

// appendTo appends the owners, each at least once.
func (o *owners) appendTo(list []*candidate) []*candidate {
	for place, c := range o {
		if place == 0 || c != o[place-1] {
			list = append(list, c)
		}
	}
	return list
}

// beatenBy returns the newcomers that own a place if they contend with these owners. A newcomer that does not get the
// last place before its point gets none.
func (o *owners) beatenBy(hasher stripHasher, newcomers []*candidate) []*candidate {
	var winners []*candidate
	for _, c := range newcomers {
		point := hasher.point(c.id)
		place := point >> (64 - placeBits)
		start := place << (64 - placeBits)
		owner := o[place]
		mine, theirs := point-start, hasher.point(owner.id)-start
		if mine < theirs || mine == theirs && c.index > owner.index {
			winners = append(winners, c)
		}
	}
	return winners
}

// contest returns the owners of the places of a strip among the candidates, of which there must be at least one. The
// order of candidates does not matter.
func contest(strip int, candidates []*candidate) owners {
	hasher := newStripHasher(strip)
	lib := consistent.New(shortlist(hasher, candidates), consistent.Config{
		Hasher:            hasher,
		PartitionCount:    places,
		ReplicationFactor: 1,
		// The library gives a member at most Load times the mean number of partitions. No member can have more than
		// all of them, which is as many times the mean as there are members: so this bound never binds. The list may
		// be shorter than places.
		Load: places,
	})
	var o owners
	for place := range o {
		o[place] = lib.GetPartitionOwner(place).(*candidate)
	}
	return o
}

// shortlist returns the candidates that may own a place, in the order of their points. A place belongs to the point
// that follows it, so between two neighbouring places only the first point can own anything, and there is no need to
// bother the library with the others: the time it takes goes up with the square of the number of members. Should two
// points coincide, the greater name goes before.
func shortlist(hasher stripHasher, candidates []*candidate) []consistent.Member {
	var first [places]*candidate
	var points [places]uint64
	for _, c := range candidates {
		point := hasher.point(c.id)
		sector := point >> (64 - placeBits)
		best := first[sector]
		if best == nil || point < points[sector] || point == points[sector] && c.index > best.index {
			first[sector], points[sector] = c, point
		}
	}
	list := make([]consistent.Member, 0, places)
	for _, c := range first {
		if c != nil {
			list = append(list, c)
		}
	}
	return list
}
