// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

func fired(d *debouncer) bool {
	select {
	case <-d.C():
		d.done()
		return true
	default:
		return false
	}
}

func TestDebouncerFiresAfterTheQuietPeriod(t *testing.T) {
	time0 := clocktesting.NewFakeClock(time.Now())
	d := newDebouncer(time0, 10*time.Millisecond, 50*time.Millisecond)
	require.Nil(t, d.C(), "without a signal there is nothing to wait for")
	for range 3 { // a debouncer is used again and again
		d.signal()
		time0.Step(9 * time.Millisecond)
		require.False(t, fired(d))
		d.signal()
		time0.Step(9 * time.Millisecond)
		require.False(t, fired(d), "the second signal begins the quiet period anew")
		time0.Step(time.Millisecond)
		require.True(t, fired(d))
		time0.Step(time.Second)
		require.False(t, fired(d), "nothing new")
	}
}

func TestDebouncerFiresAtTheLimitInAnEndlessStorm(t *testing.T) {
	time0 := clocktesting.NewFakeClock(time.Now())
	d := newDebouncer(time0, 10*time.Millisecond, 50*time.Millisecond)
	times := 0
	for i := range 1000 { // one signal a millisecond
		d.signal()
		time0.Step(time.Millisecond)
		if fired(d) {
			times++
			require.Equal(t, 49, i%50, "fires when the oldest signal is 50 ms old")
		}
	}
	require.Equal(t, 20, times)
}

func TestDebouncerDoesNotLoseAFireThatIsNotReadYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // with real timers, as resetting one takes back what it has fired
		d := newDebouncer(clock.RealClock{}, 10*time.Millisecond, 20*time.Millisecond)
		defer d.stop()
		d.signal()
		pass(time.Minute)
		d.signal() // the reader was busy
		require.True(t, fired(d))
	})
}

func TestDebouncerProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		time0 := clocktesting.NewFakeClock(time.Now())
		const quiet, limit = 10, 50
		d := newDebouncer(time0, quiet*time.Millisecond, limit*time.Millisecond)
		oldest, newest := -1, -1
		for now := range rapid.IntRange(1, 300).Draw(t, "length") {
			if fired(d) {
				require.GreaterOrEqual(t, oldest, 0, "fires only if there is something to do")
				require.True(t, now-newest >= quiet || now-oldest >= limit, "neither quiet nor late")
				oldest = -1
			}
			if oldest >= 0 {
				require.Less(t, now-newest, quiet, "quiet")
				require.Less(t, now-oldest, limit, "late")
			}
			if rapid.Bool().Draw(t, "signal") {
				d.signal()
				newest = now
				if oldest < 0 {
					oldest = now
				}
			}
			time0.Step(time.Millisecond)
		}
	})
}
