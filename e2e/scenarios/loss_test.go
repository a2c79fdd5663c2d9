// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/networkservicemesh/registry-lb/e2e/internal/cluster"
	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
)

const (
	// pulse is how often each NSE is registered while something is lost.
	pulse = time.Second
	// recovered is how long nothing has to be missing.
	recovered = 3 * pulse
	// bound is far below the 40 s and more that Kubernetes takes to notice by itself, with room for a busy machine.
	bound = 15 * time.Second
)

func nodeOf(p corev1.Pod) cluster.Node {
	nodes := cluster.Nodes()
	return nodes[slices.IndexFunc(nodes, func(n cluster.Node) bool { return n.Name() == p.Spec.NodeName })]
}

// container is the ID of a pod's only container.
func container(p corev1.Pod) string {
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	return id
}

// onNode returns a pod that runs on a node.
func onNode(t *testing.T, pods []corev1.Pod, node string) corev1.Pod {
	t.Helper()
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == node && ready(p) })
	require.GreaterOrEqual(t, i, 0, "none of %v runs on %s", names(pods), node)
	return pods[i]
}

// awaitRecovery waits until each NSE of the group has been registered all the time lately, but not for ever.
func (g group) awaitRecovery(since time.Time, atMost time.Duration) {
	g.t.Helper()
	for time.Since(since) < atMost {
		// Earlier it is too early to say.
		if time.Since(since) > 2*recovered && g.report().Silent == 0 {
			return
		}
		span(g.t, tick)
	}
}

// A replica that is lost costs seconds. What the clients of the Service see depends on where chance sends them, all the
// more if a registry-lb is lost, too; those of the registry-lb that is left see what it does. The plain Service is there to
// compare with.
func TestLoss(t *testing.T) {
	const count = 20
	givenNSM(t, 4)
	givenRegistryLB(t)
	front := givenFleet(t, namespace, "fleet", throughFront)
	plain := givenFleet(t, namespace, "fleet-plain", throughPlain)
	left := givenFleet(t, namespace, "fleet-left", "tcp://"+onNode(t, balancers(t), "node1").Status.PodIP+":5002")
	for _, loss := range []struct {
		name       string
		lose, mend func(ctx context.Context, p corev1.Pod) error
		// spared says that no registry-lb is lost.
		spared bool
	}{
		{
			name:   "a registry pod is killed",
			lose:   func(ctx context.Context, p corev1.Pod) error { return nodeOf(p).Kill(ctx, container(p)) },
			mend:   func(context.Context, corev1.Pod) error { return nil },
			spared: true,
		},
		{
			name:   "a registry pod is frozen",
			lose:   func(ctx context.Context, p corev1.Pod) error { return nodeOf(p).Freeze(ctx, container(p)) },
			mend:   func(ctx context.Context, p corev1.Pod) error { return nodeOf(p).Thaw(ctx, container(p)) },
			spared: true,
		},
		{
			name: "a node is lost, with a registry-lb and registry pods",
			lose: func(ctx context.Context, p corev1.Pod) error { return nodeOf(p).Cut(ctx) },
			mend: func(ctx context.Context, p corev1.Pod) error { return nodeOf(p).Mend(ctx) },
		},
	} {
		t.Run(loss.name, func(t *testing.T) {
			scale(t, 4)
			awaitMembers(t)
			groups := map[string]group{
				"registry-lb":              register(t, front, "front", fleet.Order{Count: count, Pulse: pulse}),
				"the registry-lb on node1": register(t, left, "left", fleet.Order{Count: count, Pulse: pulse}),
				"the plain Service":        register(t, plain, "plain", fleet.Order{Count: count, Pulse: pulse}),
			}
			victim := onNode(t, podsOf(t, namespace, "app=registry"), "node2")
			deleted := watchDeletions(t)
			for _, g := range groups {
				g.forget()
			}
			began, counts := time.Now(), requestsNow(t)
			require.NoError(t, loss.lose(t.Context(), victim))
			mend := sync.OnceFunc(func() {
				require.NoError(t, loss.mend(context.WithoutCancel(t.Context()), victim))
				kubectl(t, "wait", "--for=condition=Ready", "node", "--all", "--timeout=2m")
				// What was frozen for so long may be deaf for good: registry-k8s does not survive that its watches break while
				// it has events for them.
				kubectl(t, "-n", namespace, "delete", "pod", victim.Name, "--ignore-not-found", "--wait")
			})
			t.Cleanup(mend)
			for _, who := range slices.Sorted(maps.Keys(groups)) {
				g := groups[who]
				g.awaitRecovery(began, time.Minute)
				r := g.report()
				expired := 0
				for _, name := range deleted() {
					if strings.HasPrefix(name, g.prefix+"-") {
						expired++
					}
				}
				t.Logf("clients of %-24s: worst %4.1f s, median %4.1f s without a registration; %d attempts failed, slowest good one %.1f s; %d times one has expired; %d not registered now",
					who, r.Gap(1).Seconds(), r.Gap(0.5).Seconds(), r.FailedAttempts, r.Slowest.Seconds(), expired, r.Silent)
				if g.prefix == "left" || g.prefix == "front" && loss.spared {
					require.Zero(t, r.Silent, "%s has not recovered: %v", who, r.Errors)
					require.Less(t, r.Gap(1), bound)
					require.Zero(t, expired, "living NSEs have expired")
				}
			}
			t.Logf("API server: %s", requestsNow(t).since(counts))
			mend()
			awaitMembers(t)
			for _, g := range groups {
				report := g.unregister()
				if g.prefix == "left" || g.prefix == "front" && loss.spared {
					require.Zero(t, report.FailedCalls, "%v", report.Errors)
				}
			}
			kubectl(t, "-n", namespace, "delete", "networkserviceendpoints", "--all")
		})
	}
	require.Zero(t, restarts(t), "registry-lb crashed")
}
