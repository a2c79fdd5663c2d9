// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"testing"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/chains/memory"
	"github.com/networkservicemesh/sdk/pkg/registry/common/authorize"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/networkservicemesh/sdk/pkg/registry/core/chain"
	"github.com/networkservicemesh/sdk/pkg/tools/sandbox"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ownerPolicy is the SDK's policy that a name belongs to who registered it first.
const ownerPolicy = "etc/nsm/opa/registry/client_allowed.rego"

// TestOwner has members that check who owns a name: through registry-lb they see who it is, whether it is a hop of the
// path or not, and all calls about a name reach the one member that knows its owner.
func TestOwner(t *testing.T) {
	for _, plain := range []bool{false, true} {
		name := "through a hop of the path"
		if plain {
			name = "through a registry-lb that passes metadata unchanged"
		}
		t.Run(name, func(t *testing.T) {
			ctx := newContext(t)
			m := newMesh(ctx, t, meshOptions{nodes: 2, plain: plain, registry: func() []memory.Option {
				return []memory.Option{memory.WithAuthorizeNSERegistryServer(
					authorize.NewNetworkServiceEndpointRegistryServer(authorize.WithPolicies(ownerPolicy)),
				)}
			}})
			for _, at := range []string{registry1, registry2} {
				nse := m.endpoint(ctx, 0, m.nameAt(at, "endpoint"), "coffee")
				for _, restarted := range []bool{false, true} {
					if restarted {
						m.Registry.Restart()
					}
					impostor := m.raw(t, tokensOf(t, "impostor"))
					_, err := impostor.Register(ctx, nse.nse.Clone())
					require.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)
					_, err = impostor.Unregister(ctx, nse.nse.Clone())
					require.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)
					require.Equal(t, []string{at}, m.holders(ctx, nse.Name))
				}
				_, err := nse.NetworkServiceEndpointRegistryClient.Register(ctx, nse.nse.Clone())
				require.NoError(t, err)
				nse.unregister(ctx, t)
				require.Empty(t, m.holders(ctx, nse.Name))
			}
		})
	}
}

// raw returns a client of registry-lb that does not try again what was refused.
func (m *mesh) raw(t *testing.T, tokens token.GeneratorFunc) registry.NetworkServiceEndpointRegistryClient {
	t.Helper()
	conn, err := grpc.NewClient(m.Registry.URL.Host, sandbox.DialOptions(sandbox.WithTokenGenerator(tokens))...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return chain.NewNetworkServiceEndpointRegistryClient(
		grpcmetadata.NewNetworkServiceEndpointRegistryClient(),
		registry.NewNetworkServiceEndpointRegistryClient(conn),
	)
}
