// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// enough is how much time a call must have been given to count as failed.
	enough = 10 * time.Second
	// settle is how long a watch may take to tell what is so: three seconds until a replica that hangs is found out, one
	// until the watch is opened elsewhere, one until what vanished is looked for, and a busy machine.
	settle = 10 * time.Second
	// opening is how long after its start, or before, a change may be lost to a watch: registry-k8s lists first and begins
	// to listen then, and tells nothing of what happens in between. registry-lb finds it out when it opens a watch
	// elsewhere, but leaves a watch that is new as it would be without it.
	opening = time.Second
	// flash is how long a watch may show an older state, if it then shows the newer one again: it was opened anew at a
	// replica that had been stopped and still works through what happened meanwhile.
	flash = 2 * time.Second
)

var errTest = errors.New("test")

// violation is a promise that was broken.
type violation struct {
	promise, name, what string
}

// String describes the violation for people.
func (v violation) String() string { return v.promise + ": " + v.name + ": " + v.what }

// The promises.
const (
	promiseOrder   = "each NSE is as if there were one registry"
	promiseAnswer  = "no call fails while there are a replica and time"
	promiseRefresh = "a client's refreshes come in time"
	promiseWatch   = "a watch tells what is so"
	promiseInOrder = "a watch tells it in order"
)

// judge returns what is wrong with a history.
func judge(h *history, faults []*fault) []violation {
	var found []violation
	all := h.byName()
	for name, calls := range all {
		if !linearizable(calls, faults) {
			found = append(found, violation{promiseOrder, name, "no order explains its calls:\n" + listing(calls, faults)})
		}
		found = append(found, unanswered(calls, faults)...)
		found = append(found, unrefreshed(name, calls)...)
	}
	found = append(found, unanswered(h.failures, faults)...)
	for _, s := range h.sessions {
		for name, calls := range all {
			if belongs(name, s.service) {
				found = append(found, misled(s, name, calls)...)
			}
		}
	}
	slices.SortFunc(found, func(a, b violation) int { return strings.Compare(a.String(), b.String()) })
	return found
}

// unanswered returns the calls that failed though at least four replicas were well, which havoc sees to, though a
// registry-lb was there, and though there was time. Excused are those that were in flight when a registry-lb was killed,
// those that their caller cancelled, and conflicts.
func unanswered(calls []*call, faults []*fault) []violation {
	var found []violation
	for _, c := range calls {
		if c.err == nil || c.abandoned || c.left < enough || conflicted(c, faults) {
			continue
		}
		if len(killsIn(faults, c.start, c.end)) > 0 {
			continue
		}
		found = append(found, violation{promiseAnswer, c.name, c.String()})
	}
	return found
}

// conflicted says that a replica refused a write because another one was quicker, while one was there that had been
// stopped: it writes, when it goes on, what it had in its hands when it was stopped, and the call has been sent to
// another one since. That is the store's optimistic concurrency at work, and a replica's own answer, which registry-lb
// passes on as it is; the SDK's client tries again.
func conflicted(c *call, faults []*fault) bool {
	const slack = time.Second
	text := c.err.Error()
	return (strings.Contains(text, "the object has been modified") || strings.Contains(text, "not found")) &&
		len(during(faults, c.start-slack, c.end+slack, stopped)) > 0
}

// unnoticed is how long a client, one of many in a busy process, may take to notice that its connection has ended.
const unnoticed = time.Second

// killsIn returns the crashes of registry-lb of which a call at that time may have become a victim: in flight, or sent
// on a connection whose end had not been noticed yet.
func killsIn(faults []*fault, start, end time.Duration) []*fault {
	return slices.DeleteFunc(during(faults, start-unnoticed, end, crashed), func(f *fault) bool { return f.gone < start-unnoticed })
}

// unrefreshed returns where an NSE could have expired though its client wanted it: then not being found would be no
// violation of order.
func unrefreshed(name string, calls []*call) []violation {
	var found []violation
	var last *call
	for _, c := range calls {
		switch {
		case c.verb == find:
			continue
		case last != nil && c.start-last.end > expiry-callTimeout:
			found = append(found, violation{promiseRefresh, name, fmt.Sprintf("nothing between\n%v\n%v", last, c)})
		}
		last = nil
		if c.verb == register && c.err == nil {
			last = c
		}
	}
	return found
}

// period is a time in which it is certain how an NSE was registered.
type period struct {
	start, end time.Duration
	version    int
}

// certain returns the times in which it is certain how an NSE was registered: after a call that succeeded, until the
// start of the next one.
func certain(calls []*call) []period {
	var periods []period
	var writes []*call
	for _, c := range calls {
		if c.verb != find {
			writes = append(writes, c)
		}
	}
	uncertain, gap := false, false
	for i, c := range writes {
		if c.err != nil {
			// It may have its effect at any time, until one that succeeded has ended.
			uncertain, gap = true, true
			continue
		}
		if uncertain {
			uncertain = false
			continue
		}
		p := period{start: c.end, end: forever, version: c.version}
		if i+1 < len(writes) {
			p.end = writes[i+1].start
		}
		if last := len(periods) - 1; last >= 0 && periods[last].version == p.version && !gap {
			p.start = periods[last].start // a refresh changes nothing
			periods = periods[:last]
		}
		gap = false
		if p.end > p.start {
			periods = append(periods, p)
		}
	}
	return periods
}

// misled returns where a watch told something else about an NSE than what was so: not soon enough, or not in order. Of
// several changes in a row it need not tell all, but the last.
func misled(s *session, name string, calls []*call) []violation {
	var seen []sighting
	for _, x := range s.seen {
		if x.name == name {
			seen = append(seen, x)
		}
	}
	var found []violation
	newest := 0
	for i, x := range seen {
		if !x.deleted && x.version < newest && !replaced(seen[i+1:], x.at+flash, newest) {
			found = append(found, violation{promiseInOrder, name, fmt.Sprintf("at %.3f version %d, after version %d", x.at.Seconds(), x.version, newest)})
		}
		newest = max(newest, x.version)
	}
	for _, p := range certain(calls) {
		if (p.start - s.start).Abs() < opening {
			continue
		}
		from := max(p.start, s.start) + settle
		until := min(p.end, s.end)
		if from >= until {
			continue
		}
		at := from
		told := sighting{deleted: true} // nothing told: not there
		for _, x := range seen {
			if x.at >= until {
				break
			}
			if x.at <= from {
				told = x
				continue
			}
			if !agrees(told, p) {
				break
			}
			told, at = x, x.at
		}
		if !agrees(told, p) {
			found = append(found, violation{promiseWatch, name, fmt.Sprintf(
				"version %d from %.3f to %.3f, but the watch (%.3f - %.3f) says at %.3f: version %d, deleted %t",
				p.version, p.start.Seconds(), p.end.Seconds(), s.start.Seconds(), s.end.Seconds(), at.Seconds(), told.version, told.deleted)})
		}
	}
	return found
}

// replaced says that what was told about an NSE has been replaced, until then, by a version as new or by its end.
func replaced(later []sighting, until time.Duration, version int) bool {
	for _, x := range later {
		if x.at > until {
			break
		}
		if x.deleted || x.version >= version {
			return true
		}
	}
	return false
}

func agrees(told sighting, p period) bool {
	if p.version == 0 {
		return told.deleted
	}
	return !told.deleted && told.version == p.version
}

func TestWatchVerdict(t *testing.T) {
	t.Parallel()
	const s = time.Second
	at := func(v verb, version int, start time.Duration) *call {
		return &call{verb: v, name: "nse", version: version, start: start, end: start + s/10}
	}
	told := func(version int, at time.Duration) sighting { return sighting{at: at, name: "nse", version: version} }
	gone := func(at time.Duration) sighting { return sighting{at: at, name: "nse", version: -1, deleted: true} }
	calls := []*call{
		at(register, 1, 10*s), at(register, 2, 11*s), // the second at once after the first
		at(unregister, 0, 40*s), at(register, 3, 60*s),
	}
	for name, row := range map[string]struct {
		seen     []sighting
		promises []string
	}{
		"all changes are told":       {seen: []sighting{told(1, 10*s), told(2, 11*s), gone(40 * s), told(3, 60*s)}},
		"one is replaced by a later": {seen: []sighting{told(2, 11*s), gone(40 * s), told(3, 60*s)}},
		"the last registration is not told": {
			seen: []sighting{told(1, 10*s), told(2, 11*s), gone(40 * s)}, promises: []string{promiseWatch},
		},
		"the end is not told": {
			seen: []sighting{told(1, 10*s), told(2, 11*s), told(3, 60*s)}, promises: []string{promiseWatch},
		},
		"the end is told too late": {
			seen: []sighting{told(1, 10*s), told(2, 11*s), gone(52 * s), told(3, 60*s)}, promises: []string{promiseWatch},
		},
		"what lives is said to be gone": {
			seen: []sighting{told(2, 11*s), gone(30 * s), gone(40 * s), told(3, 60*s)}, promises: []string{promiseWatch},
		},
		"an old version comes last": {
			seen: []sighting{told(2, 11*s), told(1, 12*s), gone(40 * s), told(3, 60*s)}, promises: []string{promiseInOrder, promiseWatch},
		},
		"an old version flashes by": {seen: []sighting{told(2, 11*s), told(1, 12*s), told(2, 13*s), gone(40 * s), told(3, 60*s)}},
		"nothing is told":           {promises: []string{promiseWatch, promiseWatch}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var broken []string
			for _, v := range misled(&session{start: 1, end: 90 * s, seen: row.seen}, "nse", calls) {
				broken = append(broken, v.promise)
			}
			require.Equal(t, row.promises, broken)
		})
	}
}

// belongs says whether the NSE is one of the service's.
func belongs(name, service string) bool {
	var number int
	_, err := fmt.Sscanf(name, "nse-%d", &number)
	return err == nil && serviceName(number) == service
}

// listing shows the calls about one NSE, and the faults, in order.
func listing(calls []*call, faults []*fault) string {
	type line struct {
		at   time.Duration
		text string
	}
	lines := make([]line, 0, len(calls)+len(faults))
	for _, c := range calls {
		lines = append(lines, line{c.start, c.String()})
	}
	for _, f := range faults {
		lines = append(lines, line{f.start, "        " + f.String()})
	}
	slices.SortFunc(lines, func(a, b line) int { return int(a.at - b.at) })
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

// report fails the test for each violation; the first few of a kind are shown.
func report(t *testing.T, violations []violation) {
	t.Helper()
	const shown = 4
	counts := make(map[string]int)
	for _, v := range violations {
		if counts[v.promise]++; counts[v.promise] <= shown {
			t.Error(v)
		}
	}
	for promise, n := range counts {
		t.Logf("%d times broken: %s", n, promise)
	}
}
