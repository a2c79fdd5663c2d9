// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// checkTime bounds the search for an order of one NSE's calls. What is not decided by then counts as a violation.
const checkTime = 20 * time.Second

// state is one NSE in the model: which version is registered (0: none), and by which registration it was last written.
type state struct {
	version, lease int
}

// operation is one step in the model:
//
//   - register (also by a refresh, or to heal) sets the version and begins a lease;
//   - unregister leaves nothing;
//   - find tells the version; one that failed tells nothing and is left out;
//   - expire may leave nothing if the lease is still the one that has run out. It belongs to the environment: each
//     registration has one, from the time at which the timer of a replica may fire until the end of the history;
//   - a write that was in flight when a replica was stopped may have its effect a second time, when that replica goes
//     on with what it had in its hands: registry-lb has sent it to another one since, and nothing can fence off who
//     already has it;
//   - uncertain steps may have had no effect. Calls that failed are uncertain, and have their effect, if any, at any
//     time after their start.
type operation struct {
	verb           verb
	version, lease int
	uncertain      bool
}

// linearModel is the sequential specification of one NSE.
func linearModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(s, input, _ any) []any {
			before, op := s.(state), input.(operation)
			after := before
			switch op.verb {
			case register:
				after = state{version: op.version, lease: op.lease}
			case unregister:
				after = state{}
			case expire:
				if before.lease == op.lease {
					after = state{}
				}
			case find:
				if before.version != op.version {
					return nil
				}
			}
			if op.uncertain && after != before {
				return []any{before, after}
			}
			return []any{after}
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
	return m.ToModel()
}

// leaseRunsOut is how long after the start of a registration the timer of its replica may fire at the earliest.
const leaseRunsOut = expiry - callTimeout - time.Second

const (
	// foundOut is how long calls may still be sent to a replica that was stopped.
	foundOut = 4 * time.Second
	// goesOn is how long a replica that goes on may take for what it had in its hands.
	goesOn = time.Second
)

// operations translates the calls about one NSE into steps of the model.
func operations(calls []*call, faults []*fault) []porcupine.Operation {
	var operations []porcupine.Operation
	add := func(op operation, start, end time.Duration) {
		operations = append(operations, porcupine.Operation{Input: op, Call: int64(start), Return: int64(end)})
	}
	for i, c := range calls {
		failed := c.err != nil
		end := c.end
		if failed {
			end = forever
		}
		if c.verb == find {
			if !failed {
				add(operation{verb: find, version: c.version}, c.start, end)
			}
			continue
		}
		add(operation{verb: c.verb, version: c.version, lease: i + 1, uncertain: failed}, c.start, end)
		for _, f := range during(faults, c.start, c.end, stopped) {
			if f.start < c.start-foundOut {
				continue // nobody is sent to it any more
			}
			add(operation{verb: c.verb, version: c.version, lease: i + 1, uncertain: true}, c.start, max(c.end, f.end+goesOn))
		}
		if c.verb == register && (failed || !renewed(c, calls[i+1:])) {
			add(operation{verb: expire, lease: i + 1, uncertain: true}, c.start+leaseRunsOut, forever)
		}
	}
	return operations
}

// renewed says that the lease of a registration was over before it could run out: that keeps the search short.
func renewed(c *call, later []*call) bool {
	for _, l := range later {
		if l.verb != find && l.err == nil && l.start >= c.end && l.end < c.start+leaseRunsOut {
			return true
		}
	}
	return false
}

// linearizable says whether the calls about one NSE can be put into an order that the model allows and that is theirs
// where they did not overlap.
func linearizable(calls []*call, faults []*fault) bool {
	return porcupine.CheckOperationsTimeout(linearModel(), operations(calls, faults), checkTime) == porcupine.Ok
}

func TestLinearModel(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	at := func(v verb, version int, start, end time.Duration) *call {
		return &call{verb: v, version: version, start: start, end: end}
	}
	failed := func(c *call) *call {
		c.err = errTest
		return c
	}
	for name, row := range map[string]struct {
		calls  []*call
		faults []*fault
		ok     bool
	}{
		"what is registered is found": {ok: true, calls: []*call{
			at(register, 1, 0, 1*ms), at(find, 1, 2*ms, 3*ms),
		}},
		"what is registered is not found": {calls: []*call{
			at(register, 1, 0, 1*ms), at(find, 0, 2*ms, 3*ms),
		}},
		"during a call both is right": {ok: true, calls: []*call{
			at(register, 1, 0, 9*ms), at(find, 0, 2*ms, 3*ms), at(find, 1, 4*ms, 5*ms),
		}},
		"but not first the new and then the old": {calls: []*call{
			at(register, 1, 0, 9*ms), at(find, 1, 2*ms, 3*ms), at(find, 0, 4*ms, 5*ms),
		}},
		"an old version is found": {calls: []*call{
			at(register, 1, 0, 1*ms), at(register, 2, 2*ms, 3*ms), at(find, 1, 4*ms, 5*ms),
		}},
		"what is unregistered is found": {calls: []*call{
			at(register, 1, 0, 1*ms), at(unregister, 0, 2*ms, 3*ms), at(find, 1, 4*ms, 5*ms),
		}},
		"what failed to be unregistered may be found or not": {ok: true, calls: []*call{
			at(register, 1, 0, 1*ms), failed(at(unregister, 0, 2*ms, 3*ms)), at(find, 1, 4*ms, 5*ms), at(find, 0, 6*ms, 7*ms),
		}},
		"but does not come back": {calls: []*call{
			at(register, 1, 0, 1*ms), failed(at(unregister, 0, 2*ms, 3*ms)), at(find, 0, 4*ms, 5*ms), at(find, 1, 6*ms, 7*ms),
		}},
		"what is not refreshed may be gone": {ok: true, calls: []*call{
			at(register, 1, 0, 1*ms), at(find, 0, expiry, expiry+ms),
		}},
		"what is refreshed may not": {calls: []*call{
			at(register, 1, 0, 1*ms), at(register, 1, expiry/2, expiry/2+ms), at(find, 0, expiry, expiry+ms),
		}},
		"a replica that was stopped goes on with a delete": {
			ok: true,
			calls: []*call{
				at(register, 1, 0, 1*ms), at(unregister, 0, 2*ms, 5*ms), at(register, 2, 6*ms, 7*ms), at(find, 0, 21*ms, 22*ms),
			},
			faults: []*fault{{what: stopped, start: 3 * ms, end: 20 * ms}},
		},
		"but not with one that had ended before": {
			calls: []*call{
				at(register, 1, 0, 1*ms), at(unregister, 0, 2*ms, 5*ms), at(register, 2, 7*ms, 8*ms), at(find, 0, 21*ms, 22*ms),
			},
			faults: []*fault{{what: stopped, start: 6 * ms, end: 20 * ms}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.ok, linearizable(row.calls, row.faults))
		})
	}
}
