// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// kept are results that keep all promises.
func kept() *results {
	return &results{
		nses:   200,
		plain:  life{notFound: 150, copied: 150, leftBehind: 190},
		joined: step{stayed: 200},
		left:   step{stayed: 160, memberLeft: 40},
	}
}

func TestEachPromiseIsChecked(t *testing.T) {
	rows := []struct {
		because string
		spoil   func(r *results)
		says    string
	}{
		{"a plain Service finds all", func(r *results) { r.plain.notFound = 0 },
			"NSEs not found by name behind a plain Service: 0 of 200, promised is at least 1"},
		{"a plain Service refreshes well", func(r *results) { r.plain.copied = 0 },
			"NSEs with two copies after a refresh behind a plain Service: 0 of 200, promised is at least 1"},
		{"a plain Service leaves none behind", func(r *results) { r.plain.leftBehind = 0 },
			"NSEs left behind after Unregister behind a plain Service: 0 of 200, promised is at least 1"},
		{"registry-lb does not find one", func(r *results) { r.balanced.notFound = 1 },
			"NSEs not found by name behind registry-lb: 1 of 200, promised is 0"},
		{"registry-lb refreshes two elsewhere", func(r *results) { r.balanced.copied = 2 },
			"NSEs with two copies after a refresh behind registry-lb: 2 of 200, promised is 0"},
		{"registry-lb leaves three behind", func(r *results) { r.balanced.leftBehind = 3 },
			"NSEs left behind after Unregister behind registry-lb: 3 of 200, promised is 0"},
		{"nine move to the newcomer", func(r *results) { r.joined.toNewcomer = 9 },
			"NSEs moved to the registry that joined: 9 of 200, promised is 0"},
		{"four move needlessly on a join", func(r *results) { r.joined.needless = 4 },
			"NSEs moved needlessly when a registry joined: 4 of 200, promised is 0"},
		{"five are lost on a join", func(r *results) { r.joined.lost = 5 },
			"NSEs lost when a registry joined: 5 of 200, promised is 0"},
		{"six move needlessly on a leave", func(r *results) { r.left.needless = 6 },
			"NSEs moved needlessly when a registry left: 6 of 200, promised is 0"},
		{"seven are lost on a leave", func(r *results) { r.left.lost = 7 },
			"NSEs lost when a registry left: 7 of 200, promised is 0"},
		{"eight are left behind at the end", func(r *results) { r.leftBehind = 8 },
			"NSEs left behind after the members had changed: 8 of 200, promised is 0"},
	}
	require.Empty(t, check(promises(200), kept()))
	for _, row := range rows {
		t.Run(row.because, func(t *testing.T) {
			r := kept()
			row.spoil(r)
			broken := check(promises(200), r)
			require.Len(t, broken, 1)
			require.EqualError(t, broken[0], "promise broken: "+row.says)
		})
	}
}

func TestFewNSEsMayDoWellByChance(t *testing.T) {
	require.Empty(t, check(promises(9), &results{nses: 9}))
	require.Len(t, check(promises(10), &results{nses: 10}), 3)
}

func TestBoundsOfAPromise(t *testing.T) {
	p := promise{figure: "seen", count: func(r *results) int { return r.leftBehind }, least: 2, most: 3}
	for n, ok := range map[int]bool{1: false, 2: true, 3: true, 4: false} {
		require.Equal(t, ok, len(check([]promise{p}, &results{leftBehind: n})) == 0, n)
	}
	require.Equal(t, "2 to 3", p.bounds())
}
