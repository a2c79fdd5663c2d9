// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"testing"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/networkservicemesh/sdk/pkg/registry/core/next"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/networkservicemesh/registry-lb/internal/identity"
)

// client is an NSM client that does not try again by itself.
type client struct {
	party
	path *grpcmetadata.Path
}

func (w *world) client(t *testing.T, pod string) *client {
	t.Helper()
	return &client{party: w.party(t, pod), path: new(grpcmetadata.Path)}
}

func (c *client) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(identity.ClientCredentials(c, nil)),
		grpc.WithPerRPCCredentials(token.NewPerRPCCredentials(c.sign)),
	}
}

// at returns who to call at target, by a connection of its own as NSM's clients have. Calls have no deadline: a registry
// gives an NSE up by as much before its token ends as the call that registered it may take (SDK element expire), and
// tokens that end with an SVID of a few seconds would end at once.
func (c *client) at(t *testing.T, target string) (context.Context, registry.NetworkServiceEndpointRegistryClient) {
	t.Helper()
	cc, err := grpc.NewClient(target, c.dialOptions()...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cc.Close() })
	return grpcmetadata.PathWithContext(t.Context(), c.path), next.NewNetworkServiceEndpointRegistryClient(
		grpcmetadata.NewNetworkServiceEndpointRegistryClient(),
		registry.NewNetworkServiceEndpointRegistryClient(cc),
	)
}

func (c *client) register(t *testing.T, target string, nse *registry.NetworkServiceEndpoint) (*registry.NetworkServiceEndpoint, error) {
	t.Helper()
	ctx, nses := c.at(t, target)
	return nses.Register(ctx, nse.Clone())
}

func (c *client) unregister(t *testing.T, target string, nse *registry.NetworkServiceEndpoint) error {
	t.Helper()
	ctx, nses := c.at(t, target)
	_, err := nses.Unregister(ctx, nse.Clone())
	return err
}

// mustRegister registers an NSE that nobody may refuse.
func (c *client) mustRegister(t *testing.T, target, name string) *registry.NetworkServiceEndpoint {
	t.Helper()
	nse, err := c.register(t, target, &registry.NetworkServiceEndpoint{Name: name, NetworkServiceNames: []string{"ns"}})
	require.NoError(t, err)
	return nse
}

// holderOf is the SPIFFE ID of the replica that answered.
func holderOf(nse *registry.NetworkServiceEndpoint) string {
	ids := nse.GetPathIds()
	return ids[len(ids)-1]
}
