// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"time"

	"k8s.io/utils/clock"
)

// signallingClock is the real time, and tells when somebody begins to wait.
type signallingClock struct {
	clock.RealClock
	waiting chan<- struct{}
}

func newSignallingClock(waiting chan<- struct{}) signallingClock {
	return signallingClock{waiting: waiting}
}

func (c signallingClock) NewTimer(d time.Duration) clock.Timer {
	select {
	case c.waiting <- struct{}{}:
	default:
	}
	return c.RealClock.NewTimer(d)
}
