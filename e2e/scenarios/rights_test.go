// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
)

// What registry-lb lives on may be missing: its rights at the API server, its identity. Who has it goes on; who starts
// without it says what is missing, and waits.
func TestRightsAndIdentityAreMissing(t *testing.T) {
	const count = 40
	givenNSM(t, 3)
	givenRegistryLB(t)
	client := givenFleet(t, namespace, "fleet", throughFront)
	deleted := watchDeletions(t)
	g := register(t, client, "rights", fleet.Order{Count: count, Pulse: slowPulse})
	for _, missing := range []struct {
		name       string
		take, give func(t *testing.T)
		reasons    []string
	}{
		{"no right to read EndpointSlices", takeRights, giveRights, []string{"endpointslices", "forbidden"}},
		{"no Workload API", takeAgents, giveAgents, []string{"no certificate from the Workload API at unix:///run/spire/sockets/agent.sock"}},
	} {
		t.Run(missing.name, func(t *testing.T) {
			missing.take(t)
			given := false
			t.Cleanup(func() {
				if !given {
					missing.give(t)
				}
			})
			old := balancers(t)
			require.Len(t, old, 2)
			kubectl(t, "-n", namespace, "delete", "pod", old[0].Name, "--wait")
			var newcomer corev1.Pod
			eventually(t, "the newcomer says what is missing", func() error {
				for _, p := range balancers(t) {
					if p.Name == old[1].Name || p.Name == old[0].Name || p.Status.PodIP == "" {
						continue
					}
					newcomer = p
					code, text, err := ask(t.Context(), p, "/readyz")
					if err != nil {
						return err
					}
					for _, reason := range missing.reasons {
						if code != 503 || !strings.Contains(text, reason) {
							return fmt.Errorf("%d %s", code, text)
						}
					}
					t.Logf("/readyz of a newcomer: %s", strings.TrimSpace(text))
					return nil
				}
				return errors.New("there is no newcomer yet")
			})
			// The other one serves all clients meanwhile.
			g.awaitRefresh()
			require.Equal(t, count, g.report().Living)
			require.Zero(t, restarts(t), "registry-lb crashed")
			missing.give(t)
			given = true
			awaitMembers(t)
			lines := strings.Count(logOf(t, newcomer), "\n")
			t.Logf("the newcomer has written %d lines", lines)
			require.Less(t, lines, 200, "the log must stay readable")
		})
	}
	require.Empty(t, deleted(), "living NSEs have expired")
	require.Zero(t, g.unregister().FailedCalls)
	require.Empty(t, stored(t))
	requireNoErrors(t)
}

func takeRights(t *testing.T) {
	t.Helper()
	kubectl(t, "-n", namespace, "delete", "rolebinding", release)
}

func giveRights(t *testing.T) {
	t.Helper()
	kubectl(t, "-n", namespace, "create", "rolebinding", release, "--role="+release, "--serviceaccount="+namespace+":"+release)
}

// takeAgents leaves no node for the agents to run on.
func takeAgents(t *testing.T) {
	t.Helper()
	kubectl(t, "-n", "spire", "patch", "daemonset", "agent", "--type=merge", `-p={"spec":{"template":{"spec":{"nodeSelector":{"nowhere":"yes"}}}}}`)
	eventually(t, "the agents are gone", func() error {
		if left := podsOf(t, "spire", "name=agent"); len(left) > 0 {
			return errors.New("there are agents left")
		}
		return nil
	})
}

func giveAgents(t *testing.T) {
	t.Helper()
	kubectl(t, "-n", "spire", "patch", "daemonset", "agent", "--type=merge", `-p={"spec":{"template":{"spec":{"nodeSelector":null}}}}`)
	kubectl(t, "-n", "spire", "rollout", "status", "daemonset/agent", "--timeout=2m")
}
