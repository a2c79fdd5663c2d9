// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"time"

	"k8s.io/utils/clock"
)

// drain is how long a watch may go on.
type drain struct {
	// begins is closed when the proxy begins to drain, and nil once that was noticed.
	begins <-chan struct{}
	// over says that the watch has to end; nil while the proxy does not drain.
	over  <-chan time.Time
	timer clock.Timer
}

// begin lets the watch go on for so long.
func (d *drain) begin(clock clock.Clock, left time.Duration) {
	d.timer = clock.NewTimer(left)
	d.begins, d.over = nil, d.timer.C()
}

func (d *drain) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
