// SPDX-License-Identifier: Apache-2.0

package shard

import "sync"

// sweepParts is how many parts of the directory one Sweep looks at: 1/32 of it.
const sweepParts = parts / 32

// sweep is how far Sweep got.
type sweep struct {
	mu   sync.Mutex
	next int // part
}

// Sweep drops keys whose expiration time has passed by more than [ExpiryMargin], and what is remembered of members that
// left more than [LeaveGrace] ago. It looks at a part of the directory at a time, so that nobody waits long: call it
// once a second, and it gets round in about half a minute. It returns how many keys it dropped.
func (t *Table) Sweep() int {
	t.sweep.mu.Lock()
	defer t.sweep.mu.Unlock()
	if t.sweep.next == 0 {
		t.forget()
	}
	now := instantOf(t.clock.Now())
	dropped := 0
	for i := range sweepParts {
		dropped += t.each(&t.holders.parts[t.sweep.next+i], func(v *view, e entry) (entry, bool) {
			if e.over(now) {
				return e, false
			}
			if v.places[e.seat].presence == forgotten {
				// The NSE may live, if its expiration time says so, and then its owner is worth to know.
				e.seat, e.since = nobody, 0
				return e, e.expires != 0
			}
			e.own = e.own.fresh(now)
			return e, true
		})
	}
	t.sweep.next = (t.sweep.next + sweepParts) % parts
	return dropped
}

// forget makes members forgotten that left long ago, and their seats vacant a whole pass later.
func (t *Table) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	v := t.view.Load()
	t.view.Store(v.change(func(places []place) []place {
		for i := range places {
			switch p := &places[i]; {
			case p.presence == forgotten:
				*p = place{keys: p.keys}
			case p.presence == left && now.Sub(p.left) > LeaveGrace:
				p.presence = forgotten
			}
		}
		return places
	}))
}

// each replaces the entries of a part by what change makes of them, and returns how many keys are gone.
func (t *Table) each(p *part, change func(*view, entry) (entry, bool)) int {
	dropped := 0
	p.sweep(func(before entry) (entry, bool) {
		v := t.view.Load()
		after, keep := change(v, before)
		v.count(before, true, after, keep)
		if !keep && !before.dead {
			dropped++
		}
		return after, keep
	})
	return dropped
}
