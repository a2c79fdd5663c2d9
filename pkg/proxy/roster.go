// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"maps"
	"slices"
	"strings"
)

// roster is an immutable set of members that calls may go to.
type roster struct {
	byName map[string]*member
	// all are those that calls may go to, sorted by name: suspects are left out unless there is nobody else.
	all []*member
	// desperate says that there is nobody else.
	desperate bool
	// transition says that the table does not know all of them yet.
	transition bool
	// superseded is closed when there is a newer roster.
	superseded chan struct{}
}

func newRoster(byName map[string]*member) *roster {
	sorted := slices.SortedFunc(maps.Values(byName), func(a, b *member) int { return strings.Compare(a.Name, b.Name) })
	trusted := slices.DeleteFunc(slices.Clone(sorted), func(m *member) bool { return m.suspect })
	r := &roster{byName: byName, all: trusted, superseded: make(chan struct{})}
	if len(trusted) == 0 {
		// Rather an answer that may not come than none for sure: probes may be wrong where all members fail at once.
		r.all, r.desperate = sorted, len(sorted) > 0
	}
	return r
}

// describe returns the members for the log, sorted by name. The caller holds the proxy's lock of members.
func (r *roster) describe() []string {
	all := make([]string, 0, len(r.byName))
	for _, m := range r.byName {
		text := m.Name
		switch state := m.state(); {
		case state == StateSuspect:
			text += " (" + string(state) + ": " + m.reason + ")"
		case state != StateLive:
			text += " (" + string(state) + ")"
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}
