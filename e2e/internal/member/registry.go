// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"time"

	sdkregistry "github.com/networkservicemesh/sdk/pkg/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/chains/memory"
	"github.com/networkservicemesh/sdk/pkg/tools/token"

	"github.com/networkservicemesh/sdk-k8s/pkg/registry/chains/registryk8s"
	"github.com/networkservicemesh/sdk-k8s/pkg/tools/k8s/client/clientset/versioned"
)

// Namespace is where members write their custom resources.
const Namespace = "nsm-system"

// Registry makes the chains of one replica. Their timers and watches end with ctx.
type Registry func(ctx context.Context, token token.GeneratorFunc) sdkregistry.Registry

// Kubernetes returns registry-k8s on a store that all replicas share. An NSE that is not refreshed expires after
// expiry.
func Kubernetes(client versioned.Interface, expiry time.Duration) Registry {
	return func(ctx context.Context, token token.GeneratorFunc) sdkregistry.Registry {
		return registryk8s.NewServer(&registryk8s.Config{
			Namespace:    Namespace,
			ExpirePeriod: expiry,
			ChainCtx:     ctx,
			ClientSet:    client,
		}, token)
	}
}

// Memory returns the SDK's memory registry, each with a store of its own. An NSE that is not refreshed expires after
// expiry.
func Memory(expiry time.Duration) Registry {
	return func(ctx context.Context, token token.GeneratorFunc) sdkregistry.Registry {
		return memory.NewServer(ctx, token, memory.WithDefaultExpiration(expiry))
	}
}
