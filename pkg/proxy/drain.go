// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"time"

	"k8s.io/utils/clock"
)

// drain says when a watch has to end because registry-lb drains. The zero drain never does.
type drain struct {
	clock clock.Clock
	// left says how long the watch may go on.
	left func() time.Duration
	// begins is closed when the proxy begins to drain, and nil once that was noticed.
	begins <-chan struct{}
	// over tells that the time is over; nil while the proxy does not drain.
	over  <-chan time.Time
	timer clock.Timer
}

// newDrain returns a drain that lets a watch go on for as long as left says when it begins.
func (p *Proxy) newDrain(left func() time.Duration) *drain {
	return &drain{clock: p.options.Clock, left: left, begins: p.draining}
}

// begin has the time begin that is left.
func (d *drain) begin() {
	d.timer = d.clock.NewTimer(d.left())
	d.begins, d.over = nil, d.timer.C()
}

func (d *drain) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
