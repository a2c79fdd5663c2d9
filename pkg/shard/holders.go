// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"hash/maphash"
	"sync/atomic"
)

const (
	// partBits is the logarithm of the number of parts of the directory. A part is locked while it is swept, which
	// with a million keys in 1024 parts is some 20 microseconds.
	partBits = 10
	parts    = 1 << partBits
)

// holders is the directory: what is known about each living key. Memory goes up and down with the number of keys.
type holders struct {
	seeds      [3]maphash.Seed
	generation atomic.Uint32
	parts      [parts]part
}

func newHolders() *holders {
	h := new(holders)
	for i := range h.seeds {
		h.seeds[i] = maphash.MakeSeed()
	}
	return h
}

func (h *holders) hash(k Key) (*part, keyHash) {
	kh := keyHash{
		hash: maphash.String(h.seeds[0], k.Name),
		word: maphash.String(h.seeds[1], k.Name)<<checkShift | flagUsed,
	}
	if k.Space == NS {
		kh.word |= flagNS
	}
	return &h.parts[kh.hash>>(64-partBits)], kh
}

// ownerHash returns what stands for a SPIFFE ID: 64 bits that nobody can foresee.
func (h *holders) ownerHash(id string) uint64 {
	if id == "" {
		return 0
	}
	return max(1, maphash.String(h.seeds[2], id))
}

func (h *holders) get(k Key) (entry, bool) {
	p, kh := h.hash(k)
	return p.get(kh)
}

func (h *holders) seat(k Key) seat {
	p, kh := h.hash(k)
	return p.seat(kh)
}

// now returns the current generation.
func (h *holders) now() uint16 { return uint16(h.generation.Load() % generations) }
