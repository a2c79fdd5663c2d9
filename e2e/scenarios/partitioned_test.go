// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
)

// Registries in memory share no store: each knows its own NSEs alone, and together they are one registry.
func TestPartitioned(t *testing.T) {
	const (
		count = 60
		space = "nsm-memory"
	)
	givenIdentities(t)
	applyFile(t, "testdata/memory.yaml")
	t.Cleanup(func() { kubectl(t, "delete", "namespace", space, "--wait") })
	kubectl(t, "-n", space, "rollout", "status", "deployment/registry-memory", "--timeout=2m")
	// Here is no Service of NSM yet: the chart makes it.
	helm(t, append([]string{
		"install", release, chart, "-n", space, "--wait", "--timeout=2m", "--set=config.store=partitioned", "--set=registry.service.name=registry-memory",
	}, image()...)...)
	client := givenFleet(t, space, "fleet", throughFront)
	g := register(t, client, "memory", fleet.Order{Count: count, Pulse: slowPulse})
	require.Len(t, g.report().Holders, 3)
	require.Equal(t, count, g.find(), "what all have is merged")
	names, err := client.Find(t.Context(), "memory-7", "")
	require.NoError(t, err)
	require.Equal(t, []string{"memory-7"}, names)

	g.forget()
	kubectl(t, "-n", space, "scale", "deployment", "registry-memory", "--replicas=5")
	kubectl(t, "-n", space, "rollout", "status", "deployment/registry-memory", "--timeout=2m")
	awaitMembersIn(t, space)
	require.Len(t, register(t, client, "new", fleet.Order{Count: 2 * count}).report().Holders, 5, "newcomers get new keys")
	g.awaitRefresh()
	require.Empty(t, g.report().Moves, "no replica has left")
	require.Equal(t, count, g.find())
	report := g.unregister()
	require.Zero(t, report.FailedCalls, "%v", report.Errors)
	require.Zero(t, g.find(), "NSEs are left behind")
	t.Logf("%d NSEs, 3 -> 5 replicas: 0 moved, 0 left behind", count)
	helm(t, "uninstall", release, "-n", space, "--wait", "--timeout=2m")
	service, err := tools.kube.CoreV1().Services(space).Get(t.Context(), "registry", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "registry", service.Spec.Selector["app"])
}
