// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
)

// Living NSEs stay where they are while the registry is scaled, unless their replica leaves.
func TestScale(t *testing.T) {
	const count = 300
	givenNSM(t, 2)
	givenRegistryLB(t)
	client := givenFleet(t, namespace, "fleet", throughFront)
	deleted := watchDeletions(t)
	g := register(t, client, "scale", fleet.Order{Count: count})
	for _, replicas := range []int{6, 3, 5} {
		before := names(podsOf(t, namespace, "app=registry"))
		counts, began := requestsNow(t), time.Now()
		g.forget()
		scale(t, replicas)
		awaitMembers(t)
		scaled := time.Since(began)
		g.awaitEach(began)
		report := g.report()
		after := names(podsOf(t, namespace, "app=registry"))
		t.Logf("%d -> %d replicas after %.1f s: %d registrations, %d attempts failed, %d keys moved; now at %v; API server: %s",
			len(before), replicas, scaled.Seconds(), report.Registrations, report.FailedAttempts, len(report.Moves), report.Holders, requestsNow(t).since(counts))
		require.Zero(t, report.FailedAttempts, "%v", report.Errors)
		for _, move := range report.Moves {
			require.NotContains(t, after, move.From, "%s moved to %s although its replica is there", move.NSE, move.To)
		}
		require.Equal(t, count, report.Living)
		for holder := range report.Holders {
			require.True(t, slices.Contains(after, holder), "%s is not there any more", holder)
		}
		require.Empty(t, deleted(), "living NSEs have expired")
	}
	// New keys are spread over all replicas, newcomers too.
	require.Len(t, register(t, client, "new", fleet.Order{Count: 100}).report().Holders, 5)
	require.Equal(t, count, g.find())
	require.Zero(t, g.unregister().FailedCalls)
	_, err := client.Unregister(t.Context(), "new")
	require.NoError(t, err)
	require.Empty(t, stored(t))
	requireNoErrors(t)
}
