// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
)

// Upstream's example of a scaled registry: one replica, none, and then two.
func TestZero(t *testing.T) {
	const count = 20
	givenNSM(t, 1)
	givenRegistryLB(t)
	client := givenFleet(t, namespace, "fleet", throughFront)
	deleted := watchDeletions(t)
	g := register(t, client, "zero", fleet.Order{Count: count})

	scale(t, 0)
	awaitMembers(t) // that is: registry-lb is ready, without any
	// Who registers meanwhile reads why that fails.
	eventually(t, "the reason", func() error {
		report := g.report()
		for text := range report.Errors {
			if strings.Contains(text, `no ready member in Service "nsm-system/registry-k8s"`) {
				t.Logf("with no replica: %s", text)
				return nil
			}
		}
		return fmt.Errorf("errors so far: %v", report.Errors)
	})

	scale(t, 2)
	awaitMembers(t)
	g.awaitRefresh()
	report := g.report()
	t.Logf("after 1 -> 0 -> 2 replicas: %d NSEs at %v", report.Living, report.Holders)
	require.Equal(t, count, report.Living)
	require.Empty(t, deleted(), "living NSEs are gone")
	require.Zero(t, g.unregister().FailedCalls)
	require.Empty(t, stored(t))
	requireNoErrors(t)
}
