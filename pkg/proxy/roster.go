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
	all    []*member // sorted by name
	// superseded is closed when there is a newer roster.
	superseded chan struct{}
}

func newRoster(byName map[string]*member) *roster {
	return &roster{
		byName: byName,
		all: slices.SortedFunc(maps.Values(byName), func(a, b *member) int {
			return strings.Compare(a.Name, b.Name)
		}),
		superseded: make(chan struct{}),
	}
}

// names returns the sorted names of the members.
func (r *roster) names() []string {
	names := make([]string, 0, len(r.all))
	for _, m := range r.all {
		names = append(names, m.Name)
	}
	return names
}
