// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"testing"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// This is the hole: each replica knows the owners of those NSEs alone that were registered with it. If this test fails,
// registry-k8s has closed it by itself.
func TestIdentityImpostorWithoutRegistryLB(t *testing.T) {
	w := newWorld(t, 2)
	owner, impostor := w.client(t, "owner"), w.client(t, "impostor")
	nse := owner.mustRegister(t, w.replicas[0].addr, "nse")
	require.Equal(t, 1, w.stored(t))
	require.Equal(t, codes.PermissionDenied, status.Code(impostor.unregister(t, w.replicas[0].addr, nse)), "the replica that knows the owner minds")
	require.Equal(t, 1, w.stored(t))
	require.NoError(t, impostor.unregister(t, w.replicas[1].addr, nse), "the other one does not")
	require.Zero(t, w.stored(t), "a living NSE is gone")
}

// requireRefused checks that the impostor gets nowhere.
func requireRefused(t *testing.T, w *world, impostor *client, target string, nse *registry.NetworkServiceEndpoint, when string) {
	t.Helper()
	_, err := impostor.register(t, target, nse)
	require.Equal(t, codes.PermissionDenied, status.Code(err), "Register %s: %v", when, err)
	_, err = impostor.register(t, target, &registry.NetworkServiceEndpoint{Name: nse.GetName(), Url: "tcp://impostor"})
	require.Equal(t, codes.PermissionDenied, status.Code(err), "Register anew %s: %v", when, err)
	err = impostor.unregister(t, target, nse)
	require.Equal(t, codes.PermissionDenied, status.Code(err), "Unregister %s: %v", when, err)
	require.Equal(t, 1, w.stored(t), when)
}

func TestIdentityImpostor(t *testing.T) {
	w := newWorld(t, 2)
	lb := w.startBalancer(t)
	lb.live(t, 2)
	owner, impostor := w.client(t, "owner"), w.client(t, "impostor")
	nse := owner.mustRegister(t, lb.target, "nse")
	requireRefused(t, w, impostor, lb.target, nse, "while all is well")

	first := w.replicaOf(t, holderOf(nse))
	first.crash()
	requireRefused(t, w, impostor, lb.target, nse, "just after the holder died")
	lb.live(t, 1)
	requireRefused(t, w, impostor, lb.target, nse, "after the holder died")

	lb.stop()
	lb = w.startBalancer(t)
	requireRefused(t, w, impostor, lb.target, nse, "after registry-lb was restarted and the holder died")

	refreshed, err := owner.register(t, lb.target, nse)
	require.NoError(t, err)
	require.NotEqual(t, first.ID(), holderOf(refreshed))
	requireRefused(t, w, impostor, lb.target, refreshed, "after the owner came back")

	lb.stop()
	lb = w.startBalancer(t)
	requireRefused(t, w, impostor, lb.target, refreshed, "after registry-lb was restarted again")
	require.NoError(t, owner.unregister(t, lb.target, refreshed))
	require.Zero(t, w.stored(t))
	require.NotNil(t, impostor.mustRegister(t, lb.target, "nse"), "a name that is free is for anybody")
}
