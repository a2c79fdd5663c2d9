// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// slot is what a route needs to know of an entry, in 16 bytes: four slots share a cache line. A slot whose word is 0 is
// free.
//
// The key is not kept but two hashes of it, 96 bits together, both with seeds that differ from process to process.
// Among a million keys two with the same hashes are met once in 10^17 processes, and nobody can make up names that
// collide without knowing the seeds.
type slot struct {
	hash atomic.Uint64 // of the key
	word atomic.Uint64 // check of the key (32 bits), seat (16), generation (12), flags (4)
}

// rest is what else there is to know of an entry.
type rest struct {
	owner   atomic.Uint64
	expires atomic.Int64
	times   atomic.Uint64 // since (32 bits), own (32)
}

const (
	flagUsed = 1 << iota
	flagNS
	flagRemote
	flagDead

	generationShift = 4
	seatShift       = 16
	checkShift      = 32

	// identity is the part of a word that is about the key.
	identity = (1<<checkShift-1)<<checkShift | flagUsed | flagNS

	sinceShift = 32
)

// keyHash is what the directory knows of a key.
type keyHash struct {
	hash uint64
	word uint64 // the identity part of the word
}

// array is the memory of a part: the slot and the rest of an entry have the same index.
type array struct {
	slots []slot
	rests []rest
}

func newArray(n int) *array { return &array{slots: make([]slot, n), rests: make([]rest, n)} }

func (a *array) load(i int) entry {
	word, r := a.slots[i].word.Load(), &a.rests[i]
	times := r.times.Load()
	e := entry{
		seat:       seat(word >> seatShift),
		generation: uint16(word>>generationShift) % generations,
		remote:     word&flagRemote != 0,
		dead:       word&flagDead != 0,
		owner:      r.owner.Load(),
		expires:    instant(r.expires.Load()),
		own:        tick(times),
		since:      second(times >> sinceShift),
	}
	if word&flagNS != 0 {
		e.space = NS
	}
	return e
}

func (a *array) store(i int, k keyHash, e entry) {
	word := k.word&identity | uint64(e.seat)<<seatShift | uint64(e.generation%generations)<<generationShift
	if e.remote {
		word |= flagRemote
	}
	if e.dead {
		word |= flagDead
	}
	r := &a.rests[i]
	r.owner.Store(e.owner)
	r.expires.Store(int64(e.expires))
	r.times.Store(uint64(e.since)<<sinceShift | uint64(e.own))
	a.slots[i].hash.Store(k.hash)
	a.slots[i].word.Store(word)
}

// move copies the entry at index i of from to index to.
func (a *array) move(to int, from *array, i int) {
	r, source := &a.rests[to], &from.rests[i]
	r.owner.Store(source.owner.Load())
	r.expires.Store(source.expires.Load())
	r.times.Store(source.times.Load())
	a.slots[to].hash.Store(from.slots[i].hash.Load())
	a.slots[to].word.Store(from.slots[i].word.Load())
}

// key returns the key at index i.
func (a *array) key(i int) keyHash {
	return keyHash{hash: a.slots[i].hash.Load(), word: a.slots[i].word.Load()}
}

func (a *array) free(i int) bool { return a.slots[i].word.Load() == 0 }

// find returns the index of the key, or the free one at which the search for it ended.
func (a *array) find(k keyHash) (int, bool) {
	for i := home(k.hash, len(a.slots)); ; {
		s := &a.slots[i]
		word := s.word.Load()
		if word == 0 {
			return i, false
		}
		if (word^k.word)&identity == 0 && s.hash.Load() == k.hash {
			return i, true
		}
		if i++; i == len(a.slots) {
			i = 0
		}
	}
}

// home returns where the search for hash begins among n slots. The hash's top bits have chosen the part.
func home(hash uint64, n int) int {
	i, _ := bits.Mul64(hash<<partBits, uint64(n))
	return int(i)
}

const (
	// A part grows by a quarter when it is more than 4/5 full, so at worst it is 0.64 full, which is 63 bytes a key:
	// doubling would be up to 100. Linear probing at 4/5 looks at 3 slots for a key that is there and 13 for one that
	// is not.
	minSlots = 8

	// optimism is how often a reader tries before it waits for the writer.
	optimism = 16
)

// part is one of the many hash tables that make up the directory: open addressing with linear probing. Writers hold
// the lock. Readers do not: they look at version before and after, and look again if a writer was at work meanwhile
// (a sequence lock; see Boehm, Can seqlocks get along with programming language memory models?, MSPC 2012. All that
// readers and writers share is atomic).
type part struct {
	version atomic.Uint64 // odd while a writer is at work
	array   atomic.Pointer[array]
	mu      sync.Mutex
	used    int // slots
	_       [32]byte
}

// get returns the entry of the key, and false if there is none. It takes no lock as long as nobody writes in this part.
func (p *part) get(k keyHash) (entry, bool) {
	for range optimism {
		version := p.version.Load()
		if version%2 != 0 {
			continue
		}
		e, ok := p.search(k)
		if p.version.Load() == version {
			return e, ok
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.search(k)
}

func (p *part) search(k keyHash) (entry, bool) {
	if a := p.array.Load(); a != nil {
		if i, ok := a.find(k); ok {
			return a.load(i), true
		}
	}
	return entry{}, false
}

// seat returns the seat of the key, as get does.
func (p *part) seat(k keyHash) seat {
	for range optimism {
		version := p.version.Load()
		if version%2 != 0 {
			continue
		}
		s := p.searchSeat(k)
		if p.version.Load() == version {
			return s
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.searchSeat(k)
}

func (p *part) searchSeat(k keyHash) seat {
	if a := p.array.Load(); a != nil {
		if i, ok := a.find(k); ok {
			return seat(a.slots[i].word.Load() >> seatShift)
		}
	}
	return nobody
}

// update replaces the entry of the key by what change makes of it; false means that the key is to have none.
func (p *part) update(k keyHash, change func(e entry, known bool) (entry, bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.array.Load()
	if a == nil {
		a = p.resize(0)
	}
	var before entry
	i, known := a.find(k)
	if known {
		before = a.load(i)
	}
	after, keep := change(before, known)
	switch {
	case known && keep:
		p.replace(i, before, after)
	case known:
		p.remove(i)
		p.fit()
	case keep:
		if 5*(p.used+1) > 4*len(a.slots) {
			a = p.resize(p.used + 1)
			i, _ = a.find(k)
		}
		p.used++
		p.version.Add(1)
		a.store(i, k, after)
		p.version.Add(1)
	}
}

// sweep replaces each entry by what change makes of it; false means that it is to go.
func (p *part) sweep(change func(entry) (entry, bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.array.Load()
	if a == nil {
		return
	}
	for i := range a.slots {
		// When an entry goes, another one may move here.
		for !a.free(i) {
			before := a.load(i)
			after, keep := change(before)
			if keep {
				p.replace(i, before, after)
				break
			}
			p.remove(i)
		}
	}
	p.fit()
}

func (p *part) replace(i int, before, after entry) {
	if before == after {
		return
	}
	a := p.array.Load()
	p.version.Add(1)
	a.store(i, a.key(i), after)
	p.version.Add(1)
}

// remove frees a slot, and moves those behind it forward that would not be found beyond a free one.
func (p *part) remove(hole int) {
	a := p.array.Load()
	n := len(a.slots)
	p.version.Add(1)
	for i := (hole + 1) % n; !a.free(i); i = (i + 1) % n {
		// The way from its home to i leads over the hole, unless home lies behind the hole.
		if way := (i - home(a.key(i).hash, n) + n) % n; way >= (i-hole+n)%n {
			a.move(hole, a, i)
			hole = i
		}
	}
	a.slots[hole].word.Store(0)
	p.version.Add(1)
	p.used--
}

// fit gives memory back when most slots are free.
func (p *part) fit() {
	if n := len(p.array.Load().slots); n > minSlots && 4*p.used < n {
		p.resize(p.used)
	}
}

// resize moves all entries to a new array, 0.64 full with n of them. Readers that still look at the old one find what
// they would find in the new one.
func (p *part) resize(n int) *array {
	a := newArray(max(minSlots, n*25/16))
	if old := p.array.Load(); old != nil {
		for i := range old.slots {
			if !old.free(i) {
				free, _ := a.find(old.key(i))
				a.move(free, old, i)
			}
		}
	}
	p.array.Store(a)
	return a
}
