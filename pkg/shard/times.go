// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"math"
	"time"
)

// An entry has three times, each with the bits that it needs: an expiration time is a version, and compared to the
// nanosecond; of own traffic only the recent past counts; what is for people is in seconds. The latter two share 64
// bits.

// instant is a time in Unix nanoseconds; 0 is none.
type instant int64

// instantOf returns t as an instant. What does not fit (before 1970, after 2262) is moved to the nearest that does.
func instantOf(t time.Time) instant {
	const last = math.MaxInt64
	switch {
	case t.IsZero():
		return 0
	case t.Before(time.Unix(0, 1)):
		return 1
	case t.After(time.Unix(0, last)):
		return last
	default:
		return instant(t.UnixNano())
	}
}

// since returns how long ago before i then was.
func (i instant) since(then instant) time.Duration { return time.Duration(i - then) }

// time returns the time that i stands for; the zero time if it is none.
func (i instant) time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i)).UTC()
}

// tick is the last 32 bits of a Unix time in milliseconds; 0 is none. Two of them can be compared if they are less than
// 24 days apart, so one that is older than [maxTickAge] has to be dropped.
type tick uint32

// maxTickAge is far longer than anything that is asked about ticks, and far shorter than what they can tell.
const maxTickAge = time.Hour

// tickOf returns i as a tick.
func tickOf(i instant) tick { return max(1, tick(uint64(i)/uint64(time.Millisecond))) }

// since returns how long ago before t then was. It is negative if then was later.
func (t tick) since(then tick) time.Duration { return time.Duration(int32(t-then)) * time.Millisecond }

// fresh returns t, or none if it has become too old to be compared with. The clock may have been set back.
func (t tick) fresh(now instant) tick {
	if age := tickOf(now).since(t); age < -maxTickAge || age > maxTickAge {
		return 0
	}
	return t
}

// second is a time in Unix seconds; 0 is none.
type second uint32

// secondOf returns i as a second. What does not fit (after 2106) is moved to the last that does.
func secondOf(i instant) second {
	return second(min(max(1, uint64(i)/uint64(time.Second)), math.MaxUint32))
}

// time returns the time that s stands for; the zero time if it is none.
func (s second) time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0).UTC()
}
