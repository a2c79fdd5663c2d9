// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
)

// Replacing all pods of registry-k8s, and then all of registry-lb, fails no call of a client that tries again as NSM's do.
func TestRollout(t *testing.T) {
	const count = 40
	givenNSM(t, 3)
	givenRegistryLB(t)
	client := givenFleet(t, namespace, "fleet", throughFront)
	deleted := watchDeletions(t)
	g := register(t, client, "rollout", fleet.Order{Count: count, Pulse: pulse})
	for _, deployment := range []string{registries, release} {
		g.forget()
		began, counts := time.Now(), requestsNow(t)
		kubectl(t, "-n", namespace, "rollout", "restart", "deployment/"+deployment)
		kubectl(t, "-n", namespace, "rollout", "status", "deployment/"+deployment, "--timeout=4m")
		awaitMembers(t)
		g.awaitEach(time.Now())
		report := g.report()
		t.Logf("rollout of %s in %.1f s: %d registrations, %d attempts failed, %d calls failed, %d keys moved; longest gap %.1f s; API server: %s",
			deployment, time.Since(began).Seconds(), report.Registrations, report.FailedAttempts, report.FailedCalls, len(report.Moves),
			report.Gap(1).Seconds(), requestsNow(t).since(counts))
		require.Zero(t, report.FailedCalls, "%v", report.Errors)
		if deployment == release {
			require.Empty(t, report.Moves, "no replica has left")
		}
		require.Empty(t, deleted(), "living NSEs have expired")
	}
	require.Zero(t, g.unregister().FailedCalls)
	require.Empty(t, stored(t))
	requireNoErrors(t)
}
