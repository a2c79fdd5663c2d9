// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

// TestDrainEndsWatchesAndNothingElse has calls in flight, calls that come later, and watches of both kinds.
func TestDrainEndsWatchesAndNothingElse(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, kind proxy.Store) {
		t.Helper()
		f := nseFlavour()
		m := startScripted(t, "a")
		store := newStore()
		store.put(f, f.item("name"))
		began, release := make(chan struct{}), make(chan struct{})
		m.set(func(c *call) error {
			if c.name() == "slow" {
				began <- struct{}{}
				<-release
			}
			return store.script(c)
		})
		metrics := prometheus.NewPedanticRegistry()
		front := startFront(t, proxy.Options{Store: kind, Registerer: metrics}, m.Member)
		slow := make(chan error, 1)
		go func() { _, err := f.register(t.Context(), front.cc, f.item("slow")); slow <- err }()
		await(t, began, "the call in flight")
		watches := []*watcher{front.watch(t, f, ""), front.watch(t, f, "name")}
		for _, w := range watches {
			require.Equal(t, "name", w.next(t))
		}
		drained := time.Now()
		front.Drain()
		front.Drain() // once more does no harm
		late := front.watch(t, f, "")
		for _, w := range append(watches, late) {
			err := await(t, w.ended, "the end of the watch")
			requireCode(t, codes.Unavailable, err)
			require.ErrorContains(t, err, "registry-lb is stopping")
		}
		t.Logf("the last watch ended after %v", time.Since(drained).Round(time.Millisecond))
		require.Eventually(t, func() bool {
			return store.watching() == 0 && value(t, metrics, "registry_lb_watch_clients", nil) == 0
		}, patience, tick)

		require.Empty(t, slow)
		_, err := f.register(within(t), front.cc, f.item("later"))
		require.NoError(t, err)
		_, err = f.list(within(t), front.cc, f.query("", false))
		require.NoError(t, err)
		close(release)
		require.NoError(t, await(t, slow, "the call in flight"))
	})
}

// TestDrainEndsAWatchThatNobodyReads: who does not read does not hold up the drain until it is cut for that.
func TestDrainEndsAWatchThatNobodyReads(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	members, store := startShared(t, "a")
	clock := testingclock.NewFakeClock(time.Now())
	metrics := prometheus.NewPedanticRegistry()
	front := startFront(t, proxy.Options{Clock: clock, ProbeInterval: -1, Registerer: metrics}, describe(members)...)

	const window = 64 << 10
	stalled, err := f.find(t.Context(), front.dial(t, grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window)), f.query("", true))
	require.NoError(t, err)
	_, err = stalled.Header()
	require.NoError(t, err)
	filler := string(make([]byte, window))
	for i := range 20 {
		store.put(f, f.itemWith(fmt.Sprintf("filler-%02d", i), filler))
	}
	require.Eventually(t, clock.HasWaiters, patience, tick) // for it to read

	front.Drain()
	require.Eventually(t, func() bool {
		clock.Step(10 * time.Millisecond)
		return value(t, metrics, "registry_lb_watch_clients", nil) == 0
	}, patience, tick)
	require.Zero(t, value(t, metrics, "registry_lb_watch_dropped_total", nil))
	_, err = stalled.all()
	requireCode(t, codes.Unavailable, err)
	require.ErrorContains(t, err, "registry-lb is stopping")
}
