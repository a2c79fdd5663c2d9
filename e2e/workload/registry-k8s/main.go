// SPDX-License-Identifier: Apache-2.0

// Command registry-k8s is NSM's registry on Kubernetes: the chain of sdk-k8s, set up and configured as
// cmd-registry-k8s does it.
package main

import (
	"context"
	"fmt"

	"github.com/networkservicemesh/sdk-k8s/pkg/registry/chains/registryk8s"
	"github.com/networkservicemesh/sdk-k8s/pkg/tools/k8s"
	"github.com/networkservicemesh/sdk/pkg/registry/common/authorize"

	"github.com/networkservicemesh/registry-lb/e2e/internal/nsm"
)

type config struct {
	nsm.Config
	Namespace  string `default:"default" split_words:"true"`
	KubeletQPS int    `default:"205" split_words:"true"`
}

func main() { nsm.Main(run) }

func run(ctx context.Context, c config) error {
	identity, err := nsm.NewIdentity(ctx, c.MaxTokenLifetime)
	if err != nil {
		return err
	}
	client, _, err := k8s.NewVersionedClient(k8s.WithQPS(float32(c.KubeletQPS)), k8s.WithBurst(c.KubeletQPS*2))
	if err != nil {
		return fmt.Errorf("make the client of the API server: %w", err)
	}
	return nsm.Serve(ctx, c.ListenOn, identity, registryk8s.NewServer(
		&registryk8s.Config{Namespace: c.Namespace, ExpirePeriod: c.ExpirePeriod, ChainCtx: ctx, ClientSet: client},
		identity.Sign,
		registryk8s.WithAuthorizeNSERegistryServer(authorize.NewNetworkServiceEndpointRegistryServer(authorize.WithPolicies(c.RegistryServerPolicies...))),
		registryk8s.WithAuthorizeNSRegistryServer(authorize.NewNetworkServiceRegistryServer(authorize.WithPolicies(c.RegistryServerPolicies...))),
		registryk8s.WithAuthorizeNSERegistryClient(authorize.NewNetworkServiceEndpointRegistryClient(authorize.WithPolicies(c.RegistryClientPolicies...))),
		registryk8s.WithAuthorizeNSRegistryClient(authorize.NewNetworkServiceRegistryClient(authorize.WithPolicies(c.RegistryClientPolicies...))),
		registryk8s.WithDialOptions(identity.DialOptions()...),
	))
}
