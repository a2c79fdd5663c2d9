// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTicksAreComparedAcrossTheirEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		then := instant(rapid.Int64Range(1, math.MaxInt64-int64(maxTickAge)).Draw(t, "then"))
		age := time.Duration(rapid.Int64Range(0, int64(maxTickAge)).Draw(t, "age"))
		now := then + instant(age)
		require.NotZero(t, tickOf(then))
		// Each of the two loses less than a millisecond, and one in four thousand million is moved by one.
		require.InDelta(t, age, tickOf(now).since(tickOf(then)), float64(2*time.Millisecond))
		require.InDelta(t, -age, tickOf(then).since(tickOf(now)), float64(2*time.Millisecond))
	})
}

func TestTicksThatAreOldAreDropped(t *testing.T) {
	now := instantOf(epoch)
	for _, row := range []struct {
		because string
		age     time.Duration
		kept    bool
	}{
		{"it is now", 0, true},
		{"it is not old", maxTickAge, true},
		{"it is old", maxTickAge + time.Millisecond, false},
		{"the clock was set back a little", -maxTickAge, true},
		{"the clock was set back", -maxTickAge - time.Millisecond, false},
	} {
		t.Run(row.because, func(t *testing.T) {
			then := tickOf(now - instant(row.age))
			if row.kept {
				require.Equal(t, then, then.fresh(now))
			} else {
				require.Zero(t, then.fresh(now))
			}
		})
	}
	require.Zero(t, tick(0).fresh(now))
}

func TestSeconds(t *testing.T) {
	require.Equal(t, epoch, secondOf(instantOf(epoch.Add(time.Second-1))).time())
	require.True(t, second(0).time().IsZero())
	require.Equal(t, second(1), secondOf(1), "0 is none")
	require.Equal(t, second(math.MaxUint32), secondOf(math.MaxInt64))
}
