// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestScale is the promise of this package at full size: 100,000 living keys while members come and go.
func TestScale(t *testing.T) {
	const keys = 100_000
	names := podNames(8)
	table := NewTable(clocktesting.NewFakePassiveClock(epoch))
	register := func(k Key) string {
		route, _ := table.Route(k, nil)
		table.Registered(k, Registration{Member: route.Member, Expires: epoch.Add(10 * time.Minute)})
		return route.Member
	}
	holders := make(map[Key]string, 2*keys)
	// moved refreshes all keys, as their clients would, and returns how many are served by another member than before.
	moved := func() map[string]int {
		from := make(map[string]int)
		for k, before := range holders {
			if now := register(k); now != before {
				from[before]++
				holders[k] = now
			}
		}
		return from
	}
	learn := func(prefix string) map[string]int {
		spread := make(map[string]int)
		for i := range keys {
			k := NSEKey(fmt.Sprintf("%s-%d", prefix, i))
			holders[k] = register(k)
			spread[holders[k]]++
		}
		return spread
	}

	table.SetMembers(members(names[:4]...), nil)
	learn("early")

	table.SetMembers(members(names...), nil)
	require.Empty(t, moved(), "a member that joins moves no living key")
	t.Logf("4 -> 8 members: 0 of %d living keys moved", len(holders))

	spread := learn("late")
	for _, name := range names {
		require.InEpsilon(t, keys/len(names), spread[name], 0.15, "new keys of %s", name)
	}
	t.Logf("%d new keys over 8 members: %v", keys, spread)

	held := table.KeysByMember()
	leavers := []string{names[0], names[2], names[7]}
	table.SetMembers(members(without(names, leavers)...), nil)
	from := moved()
	for _, name := range names {
		want := 0
		if slices.Contains(leavers, name) {
			want = held[name]
		}
		require.Equal(t, want, from[name], "keys of %s that moved", name)
	}
	t.Logf("8 -> 5 members: of %d living keys, those of the three that left moved, and no other: %v", len(holders), from)
}
