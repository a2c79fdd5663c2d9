// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// leapingClock is the real time, except that hours can be made to pass between two readings. Timers take their real
// time, except for those of one length, which wait until they are released.
type leapingClock struct {
	clock.RealClock
	ahead atomic.Int64

	held  time.Duration
	holds *clocktesting.FakeClock
}

// newLeapingClock returns a clock that holds timers of this length, or none if it is 0.
func newLeapingClock(held time.Duration) *leapingClock {
	return &leapingClock{held: held, holds: clocktesting.NewFakeClock(time.Now())}
}

func (c *leapingClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.ahead.Load())) }

func (c *leapingClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// leap makes d pass.
func (c *leapingClock) leap(d time.Duration) { c.ahead.Add(int64(d)) }

// passed is how much time has been made to pass.
func (c *leapingClock) passed() time.Duration { return time.Duration(c.ahead.Load()) }

// NewTimer returns a timer that fires after d, or when timers are released if d is the length that is held.
func (c *leapingClock) NewTimer(d time.Duration) clock.Timer {
	if d > 0 && d == c.held {
		return c.holds.NewTimer(d)
	}
	return c.RealClock.NewTimer(d)
}

// release lets the timers fire that are held.
func (c *leapingClock) release() { c.holds.Step(c.held) }
