// SPDX-License-Identifier: Apache-2.0

// Command registry-memory is NSM's registry in memory: the chain of the SDK, set up and configured as
// cmd-registry-memory does it.
package main

import (
	"context"

	"github.com/networkservicemesh/sdk/pkg/registry/chains/memory"
	"github.com/networkservicemesh/sdk/pkg/registry/common/authorize"

	"github.com/networkservicemesh/registry-lb/e2e/internal/nsm"
)

func main() { nsm.Main(run) }

func run(ctx context.Context, c nsm.Config) error {
	identity, err := nsm.NewIdentity(ctx, c.MaxTokenLifetime)
	if err != nil {
		return err
	}
	return nsm.Serve(ctx, c.ListenOn, identity, memory.NewServer(ctx, identity.Sign,
		memory.WithDefaultExpiration(c.ExpirePeriod),
		memory.WithAuthorizeNSERegistryServer(authorize.NewNetworkServiceEndpointRegistryServer(authorize.WithPolicies(c.RegistryServerPolicies...))),
		memory.WithAuthorizeNSRegistryServer(authorize.NewNetworkServiceRegistryServer(authorize.WithPolicies(c.RegistryServerPolicies...))),
		memory.WithAuthorizeNSERegistryClient(authorize.NewNetworkServiceEndpointRegistryClient(authorize.WithPolicies(c.RegistryClientPolicies...))),
		memory.WithAuthorizeNSRegistryClient(authorize.NewNetworkServiceRegistryClient(authorize.WithPolicies(c.RegistryClientPolicies...))),
		memory.WithDialOptions(identity.DialOptions()...),
	))
}
