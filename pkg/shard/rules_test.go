// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	testNow   = 1_000_000
	testGuard = 10 // seconds, GuardTime
)

// In these tests seats 1 and 2 are here, and 3 has left.
type testAttendance struct{}

func (testAttendance) here(s seat) bool { return s == 1 || s == 2 }

func testMoment() moment {
	return moment{attendance: testAttendance{}, now: testNow, generation: 5}
}

func TestRulesForObserved(t *testing.T) {
	const ago, recently = testNow - testGuard, testNow - testGuard + 1
	for _, row := range []struct {
		name  string
		entry entry
		claim claim
		want  entry
		remap Remap
	}{
		{
			name:  "a key that is not known is learnt",
			claim: claim{seat: 1, owner: 7, expires: 100},
			want:  entry{seat: 1, owner: 7, expires: 100, generation: 5},
		},
		{
			name:  "an event without a holder tells that the key lives and whose it is",
			claim: claim{owner: 7, expires: 100},
			want:  entry{owner: 7, expires: 100, generation: 5},
		},
		{
			name:  "an event without a holder does not take the key from its holder",
			entry: entry{seat: 1, owner: 7, expires: 100},
			claim: claim{expires: 200},
			want:  entry{seat: 1, owner: 7, expires: 200, generation: 5},
		},
		{
			name:  "a later event moves a key that was learnt from events",
			entry: entry{seat: 1},
			claim: claim{seat: 2},
			want:  entry{seat: 2, generation: 5},
			remap: RemapMoved,
		},
		{
			name:  "own traffic that is recent outweighs the event",
			entry: entry{seat: 1, owner: 7, expires: 100, own: recently},
			claim: claim{seat: 2, owner: 8, expires: 200},
			want:  entry{seat: 1, owner: 7, expires: 100, own: recently, generation: 5},
		},
		{
			name:  "own traffic that is not recent does not",
			entry: entry{seat: 1, owner: 7, expires: 100, own: ago},
			claim: claim{seat: 2, owner: 8, expires: 200},
			want:  entry{seat: 2, owner: 8, expires: 200, generation: 5},
			remap: RemapMoved,
		},
		{
			name:  "own traffic of a future that was taken back is not recent",
			entry: entry{seat: 1, own: testNow + testGuard},
			claim: claim{seat: 2},
			want:  entry{seat: 2, generation: 5},
			remap: RemapMoved,
		},
		{
			name:  "recent own traffic at a member that has left since is worth nothing",
			entry: entry{seat: 3, own: recently},
			claim: claim{seat: 2},
			want:  entry{seat: 2, generation: 5},
			remap: RemapLeft,
		},
		{
			name:  "a member that has left does not take a key from one that is here",
			entry: entry{seat: 1, expires: 100, own: ago},
			claim: claim{seat: 3, expires: 200},
			want:  entry{seat: 1, expires: 100, own: ago, generation: 5},
		},
		{
			name:  "a member that has left is remembered if there is no better",
			claim: claim{seat: 3, expires: 200},
			want:  entry{seat: 3, expires: 200, generation: 5},
		},
		{
			name:  "an event that agrees with recent own traffic may prolong its life but not shorten it",
			entry: entry{seat: 1, expires: 100, own: recently},
			claim: claim{seat: 1, expires: 99},
			want:  entry{seat: 1, expires: 100, own: recently, generation: 5},
		},
		{
			name:  "an event that agrees with recent own traffic does not change the owner",
			entry: entry{seat: 1, owner: 7, expires: 100, own: recently},
			claim: claim{seat: 1, owner: 8, expires: 101},
			want:  entry{seat: 1, owner: 7, expires: 101, own: recently, generation: 5},
		},
		{
			name:  "an event that agrees with earlier own traffic is newer in all else",
			entry: entry{seat: 1, owner: 7, expires: 100, own: ago},
			claim: claim{seat: 1, owner: 8, expires: 99},
			want:  entry{seat: 1, owner: 8, expires: 99, own: ago, generation: 5},
		},
		{
			name:  "what was unregistered here a moment ago does not come back",
			entry: entry{dead: true, own: recently},
			claim: claim{seat: 1, expires: 200},
			want:  entry{dead: true, own: recently},
		},
		{
			name:  "what was unregistered here some time ago does",
			entry: entry{dead: true, own: ago, remote: true},
			claim: claim{seat: 1, expires: 200},
			want:  entry{seat: 1, expires: 200, generation: 5, remote: true},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, remap := row.entry.observed(row.claim, testMoment())
			require.Equal(t, row.want, got)
			require.Equal(t, row.remap, remap)
		})
	}
}

func TestRulesForRegistered(t *testing.T) {
	for _, row := range []struct {
		name  string
		entry entry
		want  entry
		remap Remap
	}{
		{
			name: "a new key is learnt",
			want: entry{seat: 2, owner: 7, expires: 100, own: testNow, generation: 5},
		},
		{
			name:  "a refresh replaces what was known",
			entry: entry{seat: 2, owner: 8, expires: 200, own: testNow - 1, generation: 4},
			want:  entry{seat: 2, owner: 7, expires: 100, own: testNow, generation: 5},
		},
		{
			name:  "a key whose holder left has moved because of that",
			entry: entry{seat: 3},
			want:  entry{seat: 2, owner: 7, expires: 100, own: testNow, generation: 5},
			remap: RemapLeft,
		},
		{
			name:  "a key whose holder is here has moved nevertheless",
			entry: entry{seat: 1},
			want:  entry{seat: 2, owner: 7, expires: 100, own: testNow, generation: 5},
			remap: RemapMoved,
		},
		{
			name:  "a key that was dead begins anew",
			entry: entry{dead: true, own: testNow - 1},
			want:  entry{seat: 2, owner: 7, expires: 100, own: testNow, generation: 5},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, remap := row.entry.registered(claim{seat: 2, owner: 7, expires: 100}, testMoment())
			require.Equal(t, row.want, got)
			require.Equal(t, row.remap, remap)
		})
	}
}

func TestRulesForDeleted(t *testing.T) {
	for _, row := range []struct {
		name     string
		entry    entry
		deleted  seat
		survives bool
	}{
		{name: "the key goes with its holder's word", entry: entry{seat: 1}, deleted: 1},
		{name: "the key goes if it is not said who held it", entry: entry{seat: 1}},
		{name: "the key goes if it was not known who held it", entry: entry{}, deleted: 1},
		{name: "the key stays after recent own traffic", entry: entry{seat: 1, own: testNow - testGuard + 1}, deleted: 1, survives: true},
		{name: "the key goes after earlier own traffic", entry: entry{seat: 1, own: testNow - testGuard}, deleted: 1},
		{name: "the key stays if another member held what was deleted", entry: entry{seat: 1}, deleted: 2, survives: true},
		{name: "the key goes if its holder has left", entry: entry{seat: 3}, deleted: 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.survives, row.entry.survives(row.deleted, testMoment()))
		})
	}
}

func TestEntryIsOver(t *testing.T) {
	for _, row := range []struct {
		name  string
		entry entry
		over  bool
	}{
		{name: "not while the NSE lives", entry: entry{expires: testNow}},
		{name: "not in the margin after its expiration", entry: entry{expires: testNow - 10}},
		{name: "after the margin", entry: entry{expires: testNow - 11}, over: true},
		{name: "never without an expiration time", entry: entry{}},
		{name: "not while it protects an Unregister from older events", entry: entry{dead: true, own: testNow - testGuard + 1}},
		{name: "when older events can't be any more", entry: entry{dead: true, own: testNow - testGuard}, over: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.over, row.entry.over(testNow))
		})
	}
}
