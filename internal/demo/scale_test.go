// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestMovesAreSorted(t *testing.T) {
	rows := []struct {
		because       string
		member        string
		members       []string
		before, after string
		want          step
	}{
		{"it is where it was", "c", []string{"a", "b", "c"}, "a", "a", step{stayed: 1}},
		{"it went to the newcomer", "c", []string{"a", "b", "c"}, "a", "c", step{toNewcomer: 1}},
		{"it went to another one when somebody joined", "c", []string{"a", "b", "c"}, "a", "b", step{needless: 1}},
		{"its registry left", "c", []string{"a", "b"}, "c", "b", step{memberLeft: 1}},
		{"it moved though another one left", "c", []string{"a", "b"}, "a", "b", step{needless: 1}},
		{"calls about it go to the one that left", "c", []string{"a", "b"}, "a", "c", step{needless: 1}},
		{"calls about it go on to the one that left", "c", []string{"a", "b"}, "c", "c", step{needless: 1}},
		{"calls about it go nowhere", "c", []string{"a", "b"}, "a", "", step{needless: 1}},
	}
	for _, row := range rows {
		t.Run(row.because, func(t *testing.T) {
			row.want.member = row.member
			got := step{member: row.member}
			got.sort(map[string]string{"nse": row.before}, map[string]string{"nse": row.after}, row.members)
			require.Equal(t, row.want, got)
		})
	}
}

func TestNSEsAreLostUnlessFoundAndRefreshed(t *testing.T) {
	registries, err := startFleet(t.Context(), nsmLifetime)
	require.NoError(t, err)
	defer registries.stop()
	lb, err := startBalancer(t.Context(), zap.NewNop(), registries.addrs())
	require.NoError(t, err)
	defer lb.stop()
	nses, err := newCrowd(t.Context(), 3, lb.url())
	require.NoError(t, err)
	for _, e := range nses {
		require.NoError(t, e.register(t.Context()))
	}
	const patience = 300 * time.Millisecond
	o, err := newObserver(lb, nses.names(), patience)
	require.NoError(t, err)
	defer o.close()
	known, err := o.expirations(t.Context(), o.names)
	require.NoError(t, err)
	require.Len(t, known, 3)

	require.NoError(t, nses[0].register(t.Context()), "one is refreshed, one is not")
	require.NoError(t, nses[2].unregister(t.Context()), "and one is not there")
	var done int
	s, err := o.settle(t.Context(), known, func(n int) { done = n })
	require.NoError(t, err)
	require.Equal(t, 2, s.lost)
	require.Equal(t, 1, done)
	require.Greater(t, s.found, patience)
	require.Greater(t, s.refreshed, patience)

	require.NoError(t, nses[1].register(t.Context()))
	o.names = o.names[:2]
	s, err = o.settle(t.Context(), known, func(int) {})
	require.NoError(t, err)
	require.Zero(t, s.lost)
	require.LessOrEqual(t, s.found, s.refreshed)

	left, err := forgotten(t.Context(), registries, patience)
	require.NoError(t, err)
	require.Equal(t, 2, left)
	for _, e := range nses[:2] {
		require.NoError(t, e.unregister(t.Context()))
	}
	left, err = forgotten(t.Context(), registries, patience)
	require.NoError(t, err)
	require.Zero(t, left)
}
