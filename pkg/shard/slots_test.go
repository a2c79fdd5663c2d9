// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is what a part should be: the plainest map.
type model map[keyHash]entry

func anyKeyHash() *rapid.Generator[keyHash] {
	return rapid.Custom(func(t *rapid.T) keyHash {
		// Few hashes, so that they collide; and few homes, some at the end of the array.
		hash := rapid.OneOf(rapid.Uint64Range(0, 8), rapid.Uint64Range(0, 63)).Draw(t, "hash") << (64 - partBits - 6)
		hash |= rapid.SampledFrom([]uint64{0, flagNS, 1 << checkShift, 1<<(64-partBits-6) - 1}).Draw(t, "low bits")
		check := rapid.Uint64Range(0, 1).Draw(t, "check")
		return keyHash{
			hash: hash,
			word: check<<checkShift | flagUsed | rapid.SampledFrom([]uint64{0, flagNS}).Draw(t, "space"),
		}
	})
}

func anyEntry(k keyHash) *rapid.Generator[entry] {
	return rapid.Custom(func(t *rapid.T) entry {
		e := entry{
			seat:       seat(rapid.Uint16().Draw(t, "seat")),
			generation: rapid.Uint16Range(0, generations-1).Draw(t, "generation"),
			remote:     rapid.Bool().Draw(t, "remote"),
			dead:       rapid.Bool().Draw(t, "dead"),
			owner:      rapid.Uint64().Draw(t, "owner"),
			expires:    instant(rapid.Int64().Draw(t, "expires")),
			own:        tick(rapid.Uint32().Draw(t, "own")),
			since:      second(rapid.Uint32().Draw(t, "since")),
		}
		if k.word&flagNS != 0 {
			e.space = NS
		}
		return e
	})
}

func TestPartIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, m := new(part), make(model)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k := anyKeyHash().Draw(t, "key")
				e := anyEntry(k).Draw(t, "entry")
				p.update(k, func(before entry, known bool) (entry, bool) {
					want, ok := m[k]
					require.Equal(t, ok, known)
					require.Equal(t, want, before)
					return e, true
				})
				m[k] = e
			},
			"remove": func(t *rapid.T) {
				k := anyKeyHash().Draw(t, "key")
				p.update(k, func(e entry, _ bool) (entry, bool) { return e, false })
				delete(m, k)
			},
			"sweep": func(t *rapid.T) {
				limit, own := instant(rapid.Int64().Draw(t, "limit")), tick(rapid.Uint32().Draw(t, "own"))
				change := func(e entry) (entry, bool) {
					e.own = own
					return e, e.expires < limit
				}
				p.sweep(change)
				for k, e := range m {
					if e, keep := change(e); keep {
						m[k] = e
					} else {
						delete(m, k)
					}
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(m), p.used)
				for k, want := range m {
					got, ok := p.get(k)
					require.True(t, ok)
					require.Equal(t, want, got)
					require.Equal(t, want.seat, p.seat(k))
				}
				k := anyKeyHash().Draw(t, "other key")
				want, ok := m[k]
				got, gotOK := p.get(k)
				require.Equal(t, ok, gotOK)
				require.Equal(t, want, got)
				require.Equal(t, want.seat, p.seat(k))
				if a := p.array.Load(); a != nil {
					require.LessOrEqual(t, 5*p.used, 4*len(a.slots), "too full")
					require.True(t, len(a.slots) == minSlots || 4*p.used >= len(a.slots), "too empty")
				}
			},
		})
	})
}

// Readers take no lock, so this is about what they see while entries change and move: nothing that is half done, and
// those that are there stay there.
func TestPartReadersSeeNothingHalfDone(t *testing.T) {
	const (
		stays, comesAndGoes = 2, 200
		rounds, duration    = 1000, time.Second // whichever is less
	)
	key := func(i int) keyHash {
		return keyHash{hash: mix(uint64(i)) >> partBits, word: uint64(i)<<checkShift | flagUsed}
	}
	version := func(i int) entry {
		return entry{seat: seat(i), owner: uint64(i), expires: instant(i), own: tick(i), since: second(i)}
	}
	p := new(part)
	set := func(i int, e entry, keep bool) {
		p.update(key(i), func(entry, bool) (entry, bool) { return e, keep })
	}
	for i := range stays {
		set(i, version(1), true)
	}
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for i := 0; !done.Load(); i = (i + 1) % stays {
				e, ok := p.get(key(i))
				if !ok || e != version(int(e.seat)) || p.seat(key(i)) == nobody {
					t.Errorf("key %d: %+v, %t", i, e, ok)
					return
				}
			}
		})
	}
	began := time.Now()
	for round := 0; round < rounds && time.Since(began) < duration; round++ {
		for i := range comesAndGoes {
			set(stays+i, entry{seat: 1, owner: uint64(i)}, true)
			set(i%stays, version(1+round), true)
		}
		for i := range comesAndGoes {
			set(stays+i, entry{}, false)
			set(i%stays, version(1+rounds+i), true)
		}
	}
	done.Store(true)
	readers.Wait()
}

func TestPartReadersWaitForTheWriter(t *testing.T) {
	k := keyHash{hash: 1, word: flagUsed}
	p := new(part)
	p.update(k, func(entry, bool) (entry, bool) { return entry{seat: 1}, true })
	a := p.array.Load()
	i, _ := a.find(k)
	word := a.slots[i].word.Load()

	p.mu.Lock()
	p.version.Add(1)
	a.slots[i].word.Store(0)
	found := make(chan seat, 2)
	go func() {
		found <- p.seat(k)
		e, _ := p.get(k)
		found <- e.seat
	}()
	for range 1000 {
		runtime.Gosched()
	}
	require.Empty(t, found, "a reader believed a writer who was not done")
	a.slots[i].word.Store(word)
	p.version.Add(1)
	p.mu.Unlock()
	require.Equal(t, seat(1), <-found)
	require.Equal(t, seat(1), <-found)
}
