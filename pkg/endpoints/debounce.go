// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"time"

	"k8s.io/utils/clock"
)

// debouncer turns a burst of signals into one: it fires when no signal came for the quiet period, and at the latest
// when the oldest signal that waits is as old as the limit, so that an endless storm does not hold changes back.
// It has no goroutine of its own and belongs to the one that selects on C.
type debouncer struct {
	clock clock.Clock
	quiet time.Duration
	limit time.Duration

	timer    clock.Timer // nil until the first signal
	pending  bool
	deadline time.Time // of the oldest signal that waits
}

func newDebouncer(c clock.Clock, quiet, limit time.Duration) *debouncer {
	return &debouncer{clock: c, quiet: quiet, limit: limit}
}

// signal says that there is something to do.
func (d *debouncer) signal() {
	now := d.clock.Now()
	if !d.pending {
		d.pending = true
		d.deadline = now.Add(d.limit)
	}
	wait := min(d.quiet, d.deadline.Sub(now)) // a deadline that has passed makes the timer fire at once
	if d.timer == nil {
		d.timer = d.clock.NewTimer(wait)
		return
	}
	d.timer.Reset(wait)
}

// C delivers once the signals given so far are due. Whoever receives from it must call done before the next signal.
func (d *debouncer) C() <-chan time.Time {
	if d.timer == nil {
		return nil
	}
	return d.timer.C()
}

// done says that the signals given so far are dealt with.
func (d *debouncer) done() { d.pending = false }

// stop frees the timer.
func (d *debouncer) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
