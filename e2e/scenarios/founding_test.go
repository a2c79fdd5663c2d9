// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
)

// The scenario for which registry-lb was made: with several replicas, what is registered can be found and unregistered.
func TestFounding(t *testing.T) {
	const count = 60
	givenNSM(t, 4)
	givenRegistryLB(t)
	for name, connectTo := range map[string]string{"fleet": throughFront, "fleet-plain": throughPlain} {
		client := givenFleet(t, namespace, name, connectTo)
		before := requestsNow(t)
		g := register(t, client, "founding-"+name, fleet.Order{Count: count})
		held := g.report().Holders
		found := g.find()
		report := g.unregister()
		t.Logf("%s: %d NSEs at %v; found %d; %d attempts failed; API server: %s", connectTo, count, held, found, report.FailedAttempts, requestsNow(t).since(before))
		if connectTo == throughFront {
			require.Equal(t, count, found)
			require.Zero(t, report.FailedAttempts, "%v", report.Errors)
			require.Zero(t, report.FailedCalls, "%v", report.Errors)
			require.Len(t, held, 4, "each replica has its share")
			require.Empty(t, stored(t), "custom resources are left behind")
		} else {
			t.Logf("%s: %d custom resources left behind", connectTo, len(stored(t)))
			kubectl(t, "-n", namespace, "delete", "networkserviceendpoints", "--all")
		}
	}
	requireNoErrors(t)
}
