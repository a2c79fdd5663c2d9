// SPDX-License-Identifier: Apache-2.0

package proxy

import "time"

// pace keeps streams that end as soon as they are opened from being opened without pause.
type pace struct {
	pause time.Duration
}

// shortLived is how long a stream must have lived to be followed by another one at once.
const shortLived = time.Second

// next returns how long to pause after a stream that lived so long.
func (p *pace) next(lived time.Duration) time.Duration {
	if lived >= shortLived {
		p.pause = 0
	} else {
		p.pause = min(max(2*p.pause, firstPause), maxPause)
	}
	return p.pause
}
