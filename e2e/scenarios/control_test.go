// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/e2e/internal/cluster"
	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
)

// The control plane may be away for a while: calls go where they went before. What registries themselves need of it they
// lack, so a registration ends well only afterwards.
func TestControlPlaneIsAway(t *testing.T) {
	const (
		count = 60
		away  = 8 * time.Second
	)
	givenNSM(t, 3)
	givenRegistryLB(t)
	client := givenFleet(t, namespace, "fleet", throughFront)
	g := register(t, client, "control", fleet.Order{Count: count, Pulse: slowPulse})
	pods := balancers(t)
	for _, part := range []string{cluster.APIServer, cluster.Etcd} {
		g.forget()
		began := time.Now()
		require.NoError(t, cluster.Stop(t.Context(), part))
		for time.Since(began) < away {
			for _, p := range pods {
				s, err := statusOf(t.Context(), p)
				require.NoError(t, err)
				require.Len(t, s.live(), 3, "members are known as long as they answer")
			}
			span(t, tick)
		}
		require.NoError(t, tools.binaries.Start(part))
		require.NoError(t, cluster.AwaitAPI(t.Context(), tools.kube))
		awaitMembers(t)
		g.awaitEach(time.Now())
		report := g.report()
		t.Logf("without %s for %.0f s: %d registrations, %d attempts failed, %d calls failed, %d keys moved; longest gap %.1f s",
			part, away.Seconds(), report.Registrations, report.FailedAttempts, report.FailedCalls, len(report.Moves), report.Gap(1).Seconds())
		require.Empty(t, report.Moves, "no replica has left")
		require.Zero(t, report.FailedCalls, "%v", report.Errors)
		require.Equal(t, count, report.Living)
		require.Equal(t, count, g.find())
	}
	require.Zero(t, g.unregister().FailedCalls)
	require.Empty(t, stored(t))
	requireNoErrors(t)
}
