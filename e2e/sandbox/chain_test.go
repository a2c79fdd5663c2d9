// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"

	"github.com/golang/protobuf/ptypes/empty"
	"github.com/networkservicemesh/api/pkg/api/registry"
	sdkregistry "github.com/networkservicemesh/sdk/pkg/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/core/chain"
	"github.com/networkservicemesh/sdk/pkg/registry/core/next"
	"github.com/networkservicemesh/sdk/pkg/registry/core/streamcontext"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// noted returns the registry of a member whose calls the recorder notes.
func noted(calls *recorder, l member.Life, r sdkregistry.Registry) sdkregistry.Registry {
	return sdkregistry.NewServer(
		chain.NewNetworkServiceRegistryServer(noteNS{calls, l}, r.NetworkServiceRegistryServer()),
		chain.NewNetworkServiceEndpointRegistryServer(noteNSE{calls, l}, r.NetworkServiceEndpointRegistryServer()),
	)
}

// noteNSE is a chain element that notes calls about NSEs at a member.
type noteNSE struct {
	calls *recorder
	life  member.Life
}

func (n noteNSE) Register(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*registry.NetworkServiceEndpoint, error) {
	n.calls.register(ctx, n.life, shard.NSEKey(nse.GetName()))
	return next.NetworkServiceEndpointRegistryServer(ctx).Register(ctx, nse)
}

func (n noteNSE) Find(query *registry.NetworkServiceEndpointQuery, server registry.NetworkServiceEndpointRegistry_FindServer) error {
	n.calls.find(server.Context(), n.life)
	return next.NetworkServiceEndpointRegistryServer(server.Context()).Find(query, server)
}

func (n noteNSE) Unregister(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*empty.Empty, error) {
	n.calls.unregister(ctx, n.life, shard.NSEKey(nse.GetName()))
	return next.NetworkServiceEndpointRegistryServer(ctx).Unregister(ctx, nse)
}

// noteNS is a chain element that notes calls about NSs at a member.
type noteNS struct {
	calls *recorder
	life  member.Life
}

func (n noteNS) Register(ctx context.Context, ns *registry.NetworkService) (*registry.NetworkService, error) {
	n.calls.register(ctx, n.life, shard.NSKey(ns.GetName()))
	return next.NetworkServiceRegistryServer(ctx).Register(ctx, ns)
}

func (n noteNS) Find(query *registry.NetworkServiceQuery, server registry.NetworkServiceRegistry_FindServer) error {
	n.calls.find(server.Context(), n.life)
	return next.NetworkServiceRegistryServer(server.Context()).Find(query, server)
}

func (n noteNS) Unregister(ctx context.Context, ns *registry.NetworkService) (*empty.Empty, error) {
	n.calls.unregister(ctx, n.life, shard.NSKey(ns.GetName()))
	return next.NetworkServiceRegistryServer(ctx).Unregister(ctx, ns)
}

// passNSE is a chain element that marks calls about NSEs where registry-lb takes them.
type passNSE struct{ calls *recorder }

func (p passNSE) Register(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*registry.NetworkServiceEndpoint, error) {
	ctx = p.calls.passed(ctx)
	return next.NetworkServiceEndpointRegistryServer(ctx).Register(ctx, nse)
}

func (p passNSE) Find(query *registry.NetworkServiceEndpointQuery, server registry.NetworkServiceEndpointRegistry_FindServer) error {
	ctx := p.calls.passed(server.Context())
	return next.NetworkServiceEndpointRegistryServer(ctx).Find(query, streamcontext.NetworkServiceEndpointRegistryFindServer(ctx, server))
}

func (p passNSE) Unregister(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*empty.Empty, error) {
	ctx = p.calls.passed(ctx)
	return next.NetworkServiceEndpointRegistryServer(ctx).Unregister(ctx, nse)
}

// passNS is a chain element that marks calls about NSs where registry-lb takes them.
type passNS struct{ calls *recorder }

func (p passNS) Register(ctx context.Context, ns *registry.NetworkService) (*registry.NetworkService, error) {
	ctx = p.calls.passed(ctx)
	return next.NetworkServiceRegistryServer(ctx).Register(ctx, ns)
}

func (p passNS) Find(query *registry.NetworkServiceQuery, server registry.NetworkServiceRegistry_FindServer) error {
	ctx := p.calls.passed(server.Context())
	return next.NetworkServiceRegistryServer(ctx).Find(query, streamcontext.NetworkServiceRegistryFindServer(ctx, server))
}

func (p passNS) Unregister(ctx context.Context, ns *registry.NetworkService) (*empty.Empty, error) {
	ctx = p.calls.passed(ctx)
	return next.NetworkServiceRegistryServer(ctx).Unregister(ctx, ns)
}
