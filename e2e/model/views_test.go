// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

const (
	// maxLag is how many steps a balancer may hear of a change of members later than the other.
	maxLag = 6
	// joinDelay is a time that no other timer has.
	joinDelay = 6 * time.Second
)

// TestViewsDiffer has two balancers hear of changes of members at different times. No living key may have two holders.
//
// The difference is less than the join delay, so newcomers join when both have heard of them. Members that come back
// under an old name are not part of this: they serve what they held as soon as a balancer hears of them.
func TestViewsDiffer(t *testing.T) {
	t.Parallel()
	play(t, func(t *rapid.T) setting {
		return setting{
			store:     rapid.SampledFrom([]proxy.Store{proxy.SharedStore, proxy.PartitionedStore}).Draw(t, "store"),
			members:   rapid.IntRange(1, 4).Draw(t, "members"),
			balancers: 2,
			endpoints: 6,
			joinDelay: joinDelay,
			holdJoins: true,
		}
	}, func(m machine) []action { return lagMachine{m}.actions() })
}

// lagMachine is a machine in which balancers hear of changes at different times.
type lagMachine struct{ machine }

func (m lagMachine) actions() []action {
	late := func(step func(*rapid.T) error) func(*rapid.T) error {
		return func(t *rapid.T) error {
			m.delays = []int{0, 0}
			m.delays[rapid.IntRange(0, 1).Draw(t, "who hears it later")] = rapid.IntRange(0, maxLag).Draw(t, "by how many steps")
			return step(t)
		}
	}
	return []action{
		{name: "refresh", weight: 12, step: m.refresh},
		{name: "register", weight: 8, step: m.registerNew},
		{name: "unregister", weight: 4, step: m.unregisterOne},
		{name: "find by name", weight: 3, step: m.findOne},
		{name: "register again without memory", weight: 2, step: m.registerWithoutMemory},
		{name: "scale up", weight: 2, step: late(m.moreMembers)},
		{name: "scale down", weight: 2, step: late(m.fewerMembers)},
		{name: "member crashes", weight: 1, step: late(m.crashOne)},
		{name: "crash is noticed", weight: 2, step: late(m.noticeCrash)},
		{name: "newcomers join", weight: 3, step: m.join},
		{name: "time passes", weight: 1, step: m.timePassesWithoutNews},
	}
}

// join lets the join delay pass.
func (m lagMachine) join(t *rapid.T) error {
	m.skipLate(t)
	return eventually(func() error {
		m.clock.release()
		for _, b := range m.balancers {
			for _, s := range b.proxy.Members() {
				if s.State == proxy.StateJoining {
					return errors.New(s.Name + " does not join")
				}
			}
		}
		return nil
	})
}

func (m lagMachine) timePassesWithoutNews(t *rapid.T) error {
	m.skipLate(t)
	return m.timePasses(t)
}

// skipLate skips a step during which more time passes than views may differ.
func (m lagMachine) skipLate(t *rapid.T) {
	t.Helper()
	for _, b := range m.balancers {
		if len(b.late) > 0 {
			pass(t, "the views differ")
		}
	}
}
