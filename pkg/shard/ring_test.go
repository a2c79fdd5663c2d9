// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/buraksezer/consistent"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// anyNames generates sets of names of any kind; their order is random.
func anyNames(minimum, maximum int) *rapid.Generator[[]string] {
	podLike := rapid.StringMatching(`registry-(k8s|memory)-[a-z0-9]{5}`)
	address := rapid.StringMatching(`10\.[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{1,2}:5002`)
	return rapid.SliceOfNDistinct(rapid.OneOf(podLike, address, rapid.String()), minimum, maximum, rapid.ID[string])
}

// ringChecks is how many random cases a test of whole rings looks at, if the command line does not say otherwise with
// -rapid.checks. A ring takes 20 ms, and ten times that with the race detector.
const ringChecks = "8"

func checkRings(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	const name = "rapid.checks"
	if checks := flag.Lookup(name); checks.Value.String() == checks.DefValue {
		require.NoError(t, flag.Set(name, ringChecks))
		defer func() { require.NoError(t, flag.Set(name, checks.DefValue)) }()
	}
	rapid.Check(t, property)
}

// without returns the names that are not in the other list.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// ownersByName returns partition -> member.
func ownersByName(r *Ring) []string {
	table := make([]string, len(r.table))
	for partition, index := range r.table {
		table[partition] = r.members[index]
	}
	return table
}

func TestRingIsAPureFunctionOfTheMemberSet(t *testing.T) {
	checkRings(t, func(t *rapid.T) {
		names := anyNames(0, 40).Draw(t, "names")
		want := NewRing(names)

		shuffled := rapid.Permutation(names).Draw(t, "shuffled")
		twice := slices.Concat(shuffled, shuffled[:len(shuffled)/2])
		require.Equal(t, want.table, NewRing(twice).table, "order or duplicates matter")

		ring := NewRing(nil)
		for range rapid.IntRange(1, 3).Draw(t, "steps") {
			strangers := anyNames(0, 10).Draw(t, "strangers")
			some := names[:rapid.IntRange(0, len(names)).Draw(t, "some")]
			ring = ring.Next(append(strangers, some...))
		}
		ring = ring.Next(shuffled)
		require.Equal(t, want.members, ring.members, "history matters")
		require.Equal(t, want.table, ring.table, "history matters")
		require.Equal(t, want.Checksum(), ring.Checksum())
	})
}

func TestRingMovesOnlyWhatItMust(t *testing.T) {
	checkRings(t, func(t *rapid.T) {
		names := anyNames(2, 40).Draw(t, "names")
		some := names[:rapid.IntRange(1, len(names)-1).Draw(t, "some")]
		others := names[len(some):]
		all, few := NewRing(names), NewRing(some)
		gone, stay := 0, ownersByName(few)
		for partition, owner := range ownersByName(all) {
			if slices.Contains(others, owner) {
				gone++
				continue
			}
			if owner != stay[partition] {
				t.Fatalf("partition %d: %q with and %q without %q", partition, owner, stay[partition], others)
			}
		}
		require.Equal(t, gone > 0, all.Checksum() != few.Checksum())
		require.Equal(t, few.table, all.Next(some).table, "leaving is not the same as never having been there")
		require.Equal(t, all.table, few.Next(names).table, "joining is not the same as having been there")
	})
}

// The standard deviation of a member's share is at most 2.8 % of the mean (at 64 members): 15 % is more than five of
// them.
func TestRingIsBalanced(t *testing.T) {
	const fullest = 1.15
	check := func(t require.TestingT, r *Ring) {
		for name, share := range r.Shares() {
			require.LessOrEqual(t, share*float64(len(r.members)), fullest, "%d members, %q", len(r.members), name)
		}
	}
	t.Run("for every number of members from 2 to 64", func(t *testing.T) {
		ring := NewRing(nil)
		for size := 2; size <= 64; size++ {
			ring = ring.Next(podNames(size))
			check(t, ring)
		}
	})
	t.Run("whatever the names are", func(t *testing.T) {
		checkRings(t, func(t *rapid.T) {
			size := rapid.IntRange(2, 64).Draw(t, "size")
			check(t, NewRing(anyNames(size, size).Draw(t, "names")))
		})
	})
}

func TestRingSpreadsKeysAsItSpreadsPartitions(t *testing.T) {
	const keys, members = 100_000, 8
	ring := NewRing(podNames(members))
	for _, space := range []Space{NSE, NS} {
		counts := make(map[string]int)
		for i := range keys {
			member, ok := ring.Locate(Key{Space: space, Name: fmt.Sprintf("nse-%d", i)})
			require.True(t, ok)
			counts[member]++
		}
		for _, name := range ring.Members() {
			require.InEpsilon(t, keys/members, counts[name], 0.15, "%s: %s", space, name)
		}
	}
}

func TestRingLocateExceptIsTheRingWithoutTheSkipped(t *testing.T) {
	checkRings(t, func(t *rapid.T) {
		names := anyNames(0, 24).Draw(t, "names")
		skipped := names[:rapid.IntRange(0, len(names)).Draw(t, "skipped")]
		skip := func(name string) bool { return slices.Contains(skipped, name) }
		ring, rest := NewRing(names), NewRing(without(names, skipped))
		for i := range 100 {
			key := NSEKey(fmt.Sprintf("nse-%d", i))
			want, wantOK := rest.Locate(key)
			got, ok := ring.LocateExcept(key, skip)
			require.Equal(t, wantOK, ok)
			require.Equal(t, want, got)
		}
	})
}

// The library, given all members at once, is the reference: leaving out who cannot own anything must not show. Ids
// that collide are as frequent here as they are rare in life.
func TestRingOwnersAreTheLibrarys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 8)), 1, 100).Draw(t, "ids")
		candidates := make([]*candidate, len(ids))
		members := make([]consistent.Member, len(ids))
		for i, id := range ids {
			candidates[i] = candidateWithID(id, i)
			members[i] = candidates[i]
		}
		strip := rapid.IntRange(0, strips-1).Draw(t, "strip")
		lib := consistent.New(members, consistent.Config{
			Hasher:            newStripHasher(strip),
			PartitionCount:    places,
			ReplicationFactor: 1,
			Load:              float64(len(members)) * places,
		})
		want := make([]int, places)
		for place := range want {
			want[place] = int(lib.GetPartitionOwner(place).(*candidate).index)
		}
		require.Equal(t, want, indices(contest(strip, candidates)))

		slices.Reverse(candidates)
		require.Equal(t, want, indices(contest(strip, candidates)), "the order of candidates matters")

		first := rapid.IntRange(1, len(ids)).Draw(t, "first")
		now := contest(strip, candidates[:first])
		entrants := append(now.appendTo(nil), now.beatenBy(newStripHasher(strip), candidates[first:])...)
		require.Equal(t, want, indices(contest(strip, entrants)), "a newcomer was turned away wrongly")
	})
}

func indices(o owners) []int {
	list := make([]int, len(o))
	for place, c := range o {
		list[place] = int(c.index)
	}
	return list
}

func TestRingHasherTellsPartitionsFromPoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringN(6, 6, 6)).Draw(t, "name")
		hasher := newStripHasher(rapid.IntRange(0, strips-1).Draw(t, "strip"))
		c := newCandidate(name, 0)
		require.Equal(t, hasher.point(c.id), hasher.Sum64([]byte("0:"+c.String())))
		require.Len(t, c.String(), tokenSize)
	})
}

func TestRingNeverPanics(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 64, 127, 255, 256} {
		t.Run(fmt.Sprintf("with %d members", size), func(t *testing.T) {
			names := make([]string, 0, 2*size)
			for i := range size {
				name := make([]byte, i)
				for j := range name {
					name[j] = byte(random.IntN(256))
				}
				names = append(names, string(name), string(name))
			}
			ring := NewRing(names)
			require.Len(t, ring.Members(), size)
			require.Len(t, ring.Shares(), size)
			member, ok := ring.Locate(NSEKey("nse-1"))
			require.Equal(t, size > 0, ok)
			require.Equal(t, size > 0, ring.Has(member))
			_, ok = ring.LocateExcept(NSEKey("nse-1"), func(string) bool { return true })
			require.False(t, ok)
		})
	}
}

func TestRingNamesMayBeHuge(t *testing.T) {
	huge := strings.Repeat("a", 1<<20)
	ring := NewRing([]string{huge, huge[1:], "b"})
	require.Len(t, ring.Members(), 3)
	for name, share := range ring.Shares() {
		require.InEpsilon(t, 1.0/3, share, 0.15, "%d bytes", len(name))
	}
	_, ok := ring.Locate(NSEKey(huge))
	require.True(t, ok)
}

// If this test fails, registry-lb replicas of this version and the one before disagree on who owns what while one
// replaces the other: do not change the expected values without a reason as good as that.
func TestRingIsTheSameInEveryVersionAndOnEveryArchitecture(t *testing.T) {
	require.Equal(t, partitions, NewRing(nil).Partitions())
	for _, row := range []struct {
		key       Key
		partition uint64
	}{
		{NSEKey(""), 27295},
		{NSKey(""), 59512},
		{NSEKey("a"), 37836},
		{NSKey("a"), 14306},
		{NSEKey("nse-kernel-7d9f8b6c5d-x2x7q"), 61862},
		{NSEKey("nse-kernel-7d9f8b6c5d-x2x7q@example.org"), 14934},
		{NSKey("icmp-responder"), 44982},
		{NSEKey("größe-\x00-名前"), 1160},
	} {
		require.Equal(t, row.partition, hashKey(row.key)>>(64-partitionBits), "%s %q", row.key.Space, row.key.Name)
	}
	for _, row := range []struct {
		members  []string
		checksum uint64
	}{
		{nil, 0xef46db3751d8e999},
		{[]string{""}, 0xd5b7e24a8ce0033b},
		{podNames(3), 0xf722eb91e8d473cc},
		{podNames(8), 0x0a3b091091f13a41},
	} {
		require.Equal(t, row.checksum, NewRing(row.members).Checksum(), "%q", row.members)
	}
}

func TestRingLocateAllocatesNothing(t *testing.T) {
	ring := NewRing(podNames(8))
	key := NSEKey(strings.Repeat("n", 100))
	require.Zero(t, testing.AllocsPerRun(100, func() { ring.Locate(key) }))
}

func FuzzRing(f *testing.F) {
	f.Add("", "", "")
	f.Add("a", "a", "b")
	f.Add("123456", "12345678", "0:123456")
	f.Add("\x00", "\x00\x00", "\xff\xfe")
	f.Add("registry-k8s-0", "größe", "名前")
	f.Add("line\nbreak", "tab\t", "\u202eright to left")
	f.Add(strings.Repeat("a", 1<<12), strings.Repeat("a", 1<<12-1), "b")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		ring := NewRing([]string{a, b, c})
		again := NewRing([]string{c}).Next([]string{c, b, a, a})
		require.Equal(t, ring.Checksum(), again.Checksum())
		for _, name := range []string{a, b, c} {
			require.True(t, ring.Has(name))
			member, ok := ring.Locate(NSEKey(name))
			require.True(t, ok)
			require.True(t, ring.Has(member))
		}
	})
}
