// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"math"
)

// unlimited is the upper bound of a figure for which nothing is promised.
const unlimited = math.MaxInt

// promise bounds one figure: a number of NSEs.
type promise struct {
	// figure says what was counted.
	figure string
	count  func(r *results) int
	// least and most are the bounds, both included.
	least, most int
}

// fewNSEs is the number below which all of them may do well behind a plain Service, by chance.
const fewNSEs = 10

// promises is what must hold for the demo to succeed with so many NSEs.
func promises(nses int) []promise {
	shown := 1
	if nses < fewNSEs {
		shown = 0
	}
	return []promise{
		// Without these the demo would show a cure without an illness.
		{"not found by name behind a plain Service", func(r *results) int { return r.plain.notFound }, shown, unlimited},
		{"with two copies after a refresh behind a plain Service", func(r *results) int { return r.plain.copied }, shown, unlimited},
		{"left behind after Unregister behind a plain Service", func(r *results) int { return r.plain.leftBehind }, shown, unlimited},

		{"not found by name behind registry-lb", func(r *results) int { return r.balanced.notFound }, 0, 0},
		{"with two copies after a refresh behind registry-lb", func(r *results) int { return r.balanced.copied }, 0, 0},
		{"left behind after Unregister behind registry-lb", func(r *results) int { return r.balanced.leftBehind }, 0, 0},

		{"moved to the registry that joined", func(r *results) int { return r.joined.toNewcomer }, 0, 0},
		{"moved needlessly when a registry joined", func(r *results) int { return r.joined.needless }, 0, 0},
		{"lost when a registry joined", func(r *results) int { return r.joined.lost }, 0, 0},

		{"moved needlessly when a registry left", func(r *results) int { return r.left.needless }, 0, 0},
		{"lost when a registry left", func(r *results) int { return r.left.lost }, 0, 0},
		{"left behind after the members had changed", func(r *results) int { return r.leftBehind }, 0, 0},
	}
}

// check returns an error for each promise that r breaks.
func check(promises []promise, r *results) []error {
	var broken []error
	for _, p := range promises {
		if n := p.count(r); n < p.least || n > p.most {
			broken = append(broken, fmt.Errorf("promise broken: NSEs %s: %d of %d, promised is %s", p.figure, n, r.nses, p.bounds()))
		}
	}
	return broken
}

// bounds says what is promised.
func (p promise) bounds() string {
	switch {
	case p.most == unlimited:
		return fmt.Sprintf("at least %d", p.least)
	case p.least == p.most:
		return fmt.Sprint(p.most)
	default:
		return fmt.Sprintf("%d to %d", p.least, p.most)
	}
}
