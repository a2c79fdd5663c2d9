// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

func TestRequestsAreCountedByCode(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		m := startScripted(t, "a")
		registry := prometheus.NewPedanticRegistry()
		front := startFront(t, proxy.Options{Registerer: registry}, m.Member)
		for _, op := range operations() {
			if op.isUnary() || op.isList() {
				require.NoError(t, op.do(within(t), f, front.cc).err)
			}
		}
		m.set(func(*call) error { return detailed(codes.PermissionDenied) })
		for _, op := range operations() {
			requireCode(t, codes.PermissionDenied, op.do(within(t), f, front.cc).err)
		}
		m.set(func(*call) error { return detailed(99) })
		_, _ = f.register(within(t), front.cc, f.item("name"))
		count := func(method, code string) float64 {
			return value(t, registry, "registry_lb_requests_total", map[string]string{"service": f.service, "method": method, "code": code})
		}
		for method, want := range map[string]map[string]float64{
			"Register":   {"OK": 1, "PermissionDenied": 1, "Unknown": 1},
			"Unregister": {"OK": 1, "PermissionDenied": 1, "Unknown": 0},
			"Find":       {"OK": 2, "PermissionDenied": 4, "Unknown": 0},
		} {
			for code, n := range want {
				require.InDelta(t, n, count(method, code), 0, "%s %s", method, code)
			}
		}
		require.InDelta(t, 11, value(t, registry, "registry_lb_requests_total", nil), 0)
		// Each call and each watch was routed once.
		require.InDelta(t, 11, value(t, registry, "registry_lb_route_total", map[string]string{"reason": "ring"}), 0)
		require.Zero(t, value(t, registry, "registry_lb_retries_total", nil))
	})
}

func TestRetriesAreCounted(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	members := startScripteds(t, "a", "b")
	registry := prometheus.NewPedanticRegistry()
	front := startFront(t, proxy.Options{Registerer: registry}, describe(members)...)
	name := front.nameAt(t, f, "a", "name")
	_, err := f.register(within(t), front.cc, f.item(name))
	require.NoError(t, err)
	count := func(reason string) float64 {
		return value(t, registry, "registry_lb_retries_total", map[string]string{"reason": reason})
	}
	members["a"].set(func(c *call) error {
		members["a"].set(obliging)
		members["a"].reset()
		return c.untilDone()
	})
	_, err = f.register(within(t), front.cc, f.item(name))
	require.NoError(t, err)
	require.InDelta(t, 1, count("connection_lost"), 0)
	require.Zero(t, count("member_unreachable"))
	members["a"].kill()
	_, err = f.register(within(t), front.cc, f.item(name))
	require.NoError(t, err)
	require.InDelta(t, 1, count("member_unreachable"), 0)
}

func TestWatchGaugesReturnToZero(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		for _, store := range []proxy.Store{proxy.SharedStore, proxy.PartitionedStore} {
			members := startScripteds(t, "a", "b")
			registry := prometheus.NewPedanticRegistry()
			front := startFront(t, proxy.Options{Registerer: registry, Store: store}, describe(members)...)
			gauge := func(metric string) float64 {
				return value(t, registry, "registry_lb_watch_"+metric, map[string]string{"service": f.service})
			}
			ctx, cancel := context.WithCancel(t.Context())
			for _, name := range []string{"", "name"} {
				s, err := f.find(ctx, front.cc, f.query(name, true))
				require.NoError(t, err)
				_, err = s.Header()
				require.NoError(t, err)
			}
			require.InDelta(t, 2, gauge("clients"), 0)
			want := map[proxy.Store]float64{proxy.SharedStore: 2, proxy.PartitionedStore: 3}[store]
			require.Eventually(t, func() bool { return gauge("upstreams") == want }, patience, tick)
			cancel()
			require.Eventually(t, func() bool { return gauge("clients") == 0 && gauge("upstreams") == 0 }, patience, tick)
		}
	})
}

func TestMemberMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	now := time.Unix(1_700_000_000, 0)
	described := []shard.Member{
		{Name: "a", UID: "a", Addrs: []string{"127.0.0.1:1"}},
		{Name: "b", UID: "b", Addrs: []string{"127.0.0.1:1"}, Phase: shard.NotReady},
	}
	startFront(t, proxy.Options{Registerer: registry, Clock: testingclock.NewFakeClock(now)}, described...)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP registry_lb_last_endpoints_sync_timestamp_seconds When the set of members was last read, in seconds since the epoch; 0: never.
# TYPE registry_lb_last_endpoints_sync_timestamp_seconds gauge
registry_lb_last_endpoints_sync_timestamp_seconds 1.7e+09
# HELP registry_lb_members Members known, by state.
# TYPE registry_lb_members gauge
registry_lb_members{state="joining"} 0
registry_lb_members{state="left"} 1
registry_lb_members{state="live"} 1
registry_lb_members{state="suspect"} 0
`), "registry_lb_members", "registry_lb_last_endpoints_sync_timestamp_seconds"))
	want := float64(shard.NewRing([]string{"a"}).Checksum() >> 11)
	require.InDelta(t, want, value(t, registry, "registry_lb_table_checksum", nil), 0)

	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	_, err = proxy.New(proxy.Options{Registerer: registry})
	require.ErrorContains(t, err, "register metrics")
}
