// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	testNow    = 1_000_000 * testSecond
	testSecond = instant(time.Second)
	testGuard  = instant(GuardTime)
)

// In these tests seats 2, 3 and 5 are here, 5 again, and 4 has left.
type testAttendance struct{}

func (testAttendance) here(s seat) bool { return s == 2 || s == 3 || s == 5 }

func (testAttendance) back(s seat, _ instant) bool { return s == 5 }

func testMoment() moment {
	return moment{attendance: testAttendance{}, now: testNow, generation: 5}
}

func TestRulesForObserved(t *testing.T) {
	const ago, recently = testNow - testGuard, testNow - testGuard + testSecond
	for _, row := range []struct {
		name  string
		entry entry
		claim claim
		want  entry
		remap Remap
	}{
		{
			name:  "a key that is not known is learnt",
			claim: claim{seat: 2, owner: 7, expires: 100},
			want:  entry{seat: 2, owner: 7, expires: 100, generation: 5},
		},
		{
			name:  "an event without a holder tells that the key lives and whose it is",
			claim: claim{owner: 7, expires: 100},
			want:  entry{owner: 7, expires: 100, generation: 5},
		},
		{
			name:  "an event without a holder does not take the key from its holder",
			entry: entry{seat: 2, owner: 7, expires: 100},
			claim: claim{expires: 200},
			want:  entry{seat: 2, owner: 7, expires: 200, generation: 5},
		},
		{
			name:  "a later event moves a key that was learnt from events",
			entry: entry{seat: 2},
			claim: claim{seat: 3},
			want:  entry{seat: 3, generation: 5},
			remap: RemapMoved,
		},
		{
			name:  "own traffic that is recent outweighs an older event",
			entry: entry{seat: 2, owner: 7, expires: 100, own: tickOf(recently)},
			claim: claim{seat: 3, owner: 8, expires: 99},
			want:  entry{seat: 2, owner: 7, expires: 100, own: tickOf(recently)},
		},
		{
			name:  "own traffic that is recent outweighs an event of which nobody knows whether it is older",
			entry: entry{seat: 2, owner: 7, expires: 100, own: tickOf(recently)},
			claim: claim{seat: 3, owner: 8, expires: 100},
			want:  entry{seat: 2, owner: 7, expires: 100, own: tickOf(recently)},
		},
		{
			name:  "a newer event outweighs own traffic that is recent",
			entry: entry{seat: 2, owner: 7, expires: 100, own: tickOf(recently)},
			claim: claim{seat: 3, owner: 8, expires: 101},
			want:  entry{seat: 3, owner: 8, expires: 101, generation: 5},
			remap: RemapMoved,
		},
		{
			name:  "an event cannot be newer than own traffic without an expiration time",
			entry: entry{seat: 2, own: tickOf(recently)},
			claim: claim{seat: 3, expires: 101},
			want:  entry{seat: 2, own: tickOf(recently)},
		},
		{
			name:  "what was read since then outweighs own traffic that is recent",
			entry: entry{seat: 2, own: tickOf(recently)},
			claim: claim{seat: 3, read: true},
			want:  entry{seat: 3, generation: 5},
			remap: RemapMoved,
		},
		{
			name:  "what was read from a store that lags behind does not",
			entry: entry{seat: 2, expires: 100, own: tickOf(recently)},
			claim: claim{seat: 3, expires: 99, read: true},
			want:  entry{seat: 2, expires: 100, own: tickOf(recently)},
		},
		{
			name:  "an item of a listing does not take a key from a member that got it since the listing began",
			entry: entry{seat: 2, owner: 7, expires: 100},
			claim: claim{seat: 3, owner: 8, expires: 99, listed: true},
			want:  entry{seat: 2, owner: 7, expires: 100},
		},
		{
			name:  "an item of a listing does not make older what was heard since the listing began",
			entry: entry{seat: 2, owner: 7, expires: 100},
			claim: claim{seat: 2, owner: 8, expires: 99, listed: true},
			want:  entry{seat: 2, owner: 7, expires: 100},
		},
		{
			name:  "a listing is believed in all else that was heard before it began",
			entry: entry{seat: 2, owner: 7, expires: 100},
			claim: claim{seat: 3, owner: 8, expires: 99, listed: true, read: true},
			want:  entry{seat: 3, owner: 8, expires: 99, generation: 5},
			remap: RemapMoved,
		},
		{
			name:  "an old copy does not take a key from a newer one",
			entry: entry{seat: 2, expires: 100},
			claim: claim{seat: 3, expires: 99, copied: true},
			want:  entry{seat: 2, expires: 100},
		},
		{
			name:  "a copy that is as new as the other may",
			entry: entry{seat: 2, expires: 100},
			claim: claim{seat: 3, expires: 100, copied: true},
			want:  entry{seat: 3, expires: 100, generation: 5},
			remap: RemapMoved,
		},
		{
			name:  "a new copy at a member that is back does not take a key from one that is here",
			entry: entry{seat: 2, expires: 100},
			claim: claim{seat: 5, expires: 101, copied: true},
			want:  entry{seat: 2, expires: 100},
		},
		{
			name:  "a copy at a member that is back takes a key from a member that has left",
			entry: entry{seat: 4, expires: 100},
			claim: claim{seat: 5, expires: 101, copied: true},
			want:  entry{seat: 5, expires: 101, generation: 5},
			remap: RemapLeft,
		},
		{
			name:  "a member that is back takes a key from one that is here if all members share a store",
			entry: entry{seat: 2, expires: 100},
			claim: claim{seat: 5, expires: 101},
			want:  entry{seat: 5, expires: 101, generation: 5},
			remap: RemapMoved,
		},
		{
			name:  "an old copy takes a key from a member that has left",
			entry: entry{seat: 4, expires: 100},
			claim: claim{seat: 3, expires: 99, copied: true},
			want:  entry{seat: 3, expires: 99, generation: 5},
			remap: RemapLeft,
		},
		{
			name:  "own traffic that is not recent does not",
			entry: entry{seat: 2, owner: 7, expires: 100, own: tickOf(ago)},
			claim: claim{seat: 3, owner: 8, expires: 200},
			want:  entry{seat: 3, owner: 8, expires: 200, generation: 5},
			remap: RemapMoved,
		},
		{
			name:  "own traffic of a future that was taken back is not recent",
			entry: entry{seat: 2, own: tickOf(testNow + testGuard)},
			claim: claim{seat: 3},
			want:  entry{seat: 3, generation: 5},
			remap: RemapMoved,
		},
		{
			name:  "recent own traffic at a member that has left since is worth nothing",
			entry: entry{seat: 4, own: tickOf(recently)},
			claim: claim{seat: 3},
			want:  entry{seat: 3, generation: 5},
			remap: RemapLeft,
		},
		{
			name:  "a member that has left does not take a key from one that is here",
			entry: entry{seat: 2, expires: 100, own: tickOf(ago)},
			claim: claim{seat: 4, expires: 200},
			want:  entry{seat: 2, expires: 100, own: tickOf(ago)},
		},
		{
			name:  "a member that has left is remembered if there is no better",
			claim: claim{seat: 4, expires: 200},
			want:  entry{seat: 4, expires: 200, generation: 5},
		},
		{
			name:  "an older event that agrees with recent own traffic does not shorten its life",
			entry: entry{seat: 2, expires: 100, own: tickOf(recently)},
			claim: claim{seat: 2, expires: 99},
			want:  entry{seat: 2, expires: 100, own: tickOf(recently), generation: 5},
		},
		{
			name:  "an older event that agrees with recent own traffic does not change the owner",
			entry: entry{seat: 2, owner: 7, expires: 100, own: tickOf(recently)},
			claim: claim{seat: 2, owner: 8, expires: 100},
			want:  entry{seat: 2, owner: 7, expires: 100, own: tickOf(recently), generation: 5},
		},
		{
			name:  "a newer event that agrees with recent own traffic is newer in all else",
			entry: entry{seat: 2, owner: 7, expires: 100, own: tickOf(recently)},
			claim: claim{seat: 2, owner: 8, expires: 101},
			want:  entry{seat: 2, owner: 8, expires: 101, own: tickOf(recently), generation: 5},
		},
		{
			name:  "an event that agrees with earlier own traffic is newer in all else",
			entry: entry{seat: 2, owner: 7, expires: 100, own: tickOf(ago)},
			claim: claim{seat: 2, owner: 8, expires: 99},
			want:  entry{seat: 2, owner: 8, expires: 99, own: tickOf(ago), generation: 5},
		},
		{
			name:  "what was unregistered here a moment ago does not come back",
			entry: entry{dead: true, expires: 200, own: tickOf(recently)},
			claim: claim{seat: 2, expires: 200},
			want:  entry{dead: true, expires: 200, own: tickOf(recently)},
		},
		{
			name:  "what was registered again since then does",
			entry: entry{dead: true, expires: 200, own: tickOf(recently)},
			claim: claim{seat: 2, expires: 201},
			want:  entry{seat: 2, expires: 201, generation: 5},
		},
		{
			name:  "what was unregistered here some time ago does",
			entry: entry{dead: true, own: tickOf(ago), remote: true},
			claim: claim{seat: 2, expires: 200},
			want:  entry{seat: 2, expires: 200, generation: 5, remote: true},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, remap := row.entry.observed(row.claim, testMoment())
			got.since = 0 // see TestRulesForSince
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
			want: entry{seat: 3, owner: 7, expires: 100, own: tickOf(testNow), generation: 5},
		},
		{
			name:  "a refresh replaces what was known",
			entry: entry{seat: 3, owner: 8, expires: 200, own: tickOf(testNow - testSecond), generation: 4},
			want:  entry{seat: 3, owner: 7, expires: 100, own: tickOf(testNow), generation: 5},
		},
		{
			name:  "a key whose holder left has moved because of that",
			entry: entry{seat: 4},
			want:  entry{seat: 3, owner: 7, expires: 100, own: tickOf(testNow), generation: 5},
			remap: RemapLeft,
		},
		{
			name:  "a key whose holder is here has moved nevertheless",
			entry: entry{seat: 2},
			want:  entry{seat: 3, owner: 7, expires: 100, own: tickOf(testNow), generation: 5},
			remap: RemapMoved,
		},
		{
			name:  "a key that was dead begins anew",
			entry: entry{dead: true, own: tickOf(testNow - testSecond)},
			want:  entry{seat: 3, owner: 7, expires: 100, own: tickOf(testNow), generation: 5},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, remap := row.entry.registered(claim{seat: 3, owner: 7, expires: 100}, testMoment())
			got.since = 0 // see TestRulesForSince
			require.Equal(t, row.want, got)
			require.Equal(t, row.remap, remap)
		})
	}
}

func TestRulesForSince(t *testing.T) {
	const now, before = second(1_000_000), second(7)
	registered := func(e entry, c claim) entry { e, _ = e.registered(c, testMoment()); return e }
	observed := func(e entry, c claim) entry { e, _ = e.observed(c, testMoment()); return e }
	for _, row := range []struct {
		name  string
		heard func(e entry, c claim) entry
		entry entry
		claim claim
		want  second
	}{
		{"a Register gives the key to the member now", registered, entry{}, claim{seat: 3}, now},
		{"a Register elsewhere does, too", registered, entry{seat: 2, since: before}, claim{seat: 3}, now},
		{"a refresh does not", registered, entry{seat: 3, since: before}, claim{seat: 3}, before},
		{"nor is it known after a refresh if it was not before", registered, entry{seat: 3}, claim{seat: 3}, 0},
		{"an unregistered key begins anew", registered, entry{seat: 3, since: before}.unregistered(testMoment()), claim{seat: 3}, now},
		{"an event gives the key to the member now", observed, entry{}, claim{seat: 3}, now},
		{"so it does when the key moves", observed, entry{seat: 2, since: before}, claim{seat: 3}, now},
		{"an event that tells no news does not", observed, entry{seat: 3, since: before}, claim{seat: 3}, before},
		{"nor one that does not count", observed, entry{seat: 2, since: before}, claim{seat: 4}, before},
		{"nor one without a holder", observed, entry{seat: 2, since: before}, claim{expires: 100}, before},
		{"what a listing tells was so before", observed, entry{}, claim{seat: 3, listed: true}, 0},
		{"also if the key has moved", observed, entry{seat: 2, since: before}, claim{seat: 3, listed: true}, 0},
		{"so does what the beginning of a watch tells", observed, entry{}, claim{seat: 3, standing: true}, 0},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.want, row.heard(row.entry, row.claim).since) })
	}
}

func TestRulesForDeleted(t *testing.T) {
	for _, row := range []struct {
		name     string
		entry    entry
		deleted  claim
		survives bool
	}{
		{name: "the key goes with its holder's word", entry: entry{seat: 2}, deleted: claim{seat: 2}},
		{name: "the key goes if it is not said who held it", entry: entry{seat: 2}},
		{name: "the key goes if it was not known who held it", entry: entry{}, deleted: claim{seat: 2}},
		{
			name:     "the key stays after recent own traffic",
			entry:    entry{seat: 2, own: tickOf(testNow - testGuard + testSecond)},
			deleted:  claim{seat: 2},
			survives: true,
		},
		{
			name:     "the key stays after recent own traffic if what was deleted is older",
			entry:    entry{seat: 2, expires: 100, own: tickOf(testNow - testGuard + testSecond)},
			deleted:  claim{seat: 2, expires: 99},
			survives: true,
		},
		{
			name:    "the key goes if it was deleted after recent own traffic",
			entry:   entry{seat: 2, expires: 100, own: tickOf(testNow - testGuard + testSecond)},
			deleted: claim{seat: 2, expires: 100},
		},
		{
			name:     "the key stays if what was deleted is older than what an event said",
			entry:    entry{seat: 2, expires: 100},
			deleted:  claim{seat: 2, expires: 99},
			survives: true,
		},
		{name: "the key goes after earlier own traffic", entry: entry{seat: 2, own: tickOf(testNow - testGuard)}, deleted: claim{seat: 2}},
		{name: "the key stays if another member held what was deleted", entry: entry{seat: 2}, deleted: claim{seat: 3}, survives: true},
		{
			name:    "the key goes if another member held it later",
			entry:   entry{seat: 2, expires: 100},
			deleted: claim{seat: 3, expires: 101},
		},
		{name: "the key goes if its holder has left", entry: entry{seat: 4}, deleted: claim{seat: 3}},
		{
			name:     "the key stays with a holder that has left if another member's copy was deleted",
			entry:    entry{seat: 4, expires: 100},
			deleted:  claim{seat: 3, expires: 99, copied: true},
			survives: true,
		},
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
		{name: "not in the margin after its expiration", entry: entry{expires: testNow - 10*testSecond}},
		{name: "after the margin", entry: entry{expires: testNow - 11*testSecond}, over: true},
		{name: "never without an expiration time", entry: entry{}},
		{name: "not while it protects an Unregister from older events", entry: entry{dead: true, own: tickOf(testNow - testGuard + testSecond)}},
		{name: "when older events can't be any more", entry: entry{dead: true, own: tickOf(testNow - testGuard)}, over: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.over, row.entry.over(testNow))
		})
	}
}
