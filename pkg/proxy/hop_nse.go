// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"

	"github.com/golang/protobuf/ptypes/empty"
	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/common/updatepath"
	"github.com/networkservicemesh/sdk/pkg/registry/core/next"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// hopNSEServer is the chain element that begins and ends the hop for NSEs.
type hopNSEServer struct{ proxy *Proxy }

func (s hopNSEServer) Register(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*registry.NetworkServiceEndpoint, error) {
	key := shard.NSEKey(nse.GetName())
	hopCtx, path, o, err := begin(ctx, nse.GetPathIds())
	if err != nil {
		return nil, s.proxy.end(ctx, key, path, o, err)
	}
	resp, err := next.NetworkServiceEndpointRegistryServer(ctx).Register(hopCtx, nse)
	if err = s.proxy.end(ctx, key, path, o, err); err != nil {
		return nil, err
	}
	return resp, nil
}

func (hopNSEServer) Find(query *registry.NetworkServiceEndpointQuery, server registry.NetworkServiceEndpointRegistry_FindServer) error {
	return next.NetworkServiceEndpointRegistryServer(server.Context()).Find(query, server)
}

func (s hopNSEServer) Unregister(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*empty.Empty, error) {
	key := shard.NSEKey(nse.GetName())
	hopCtx, path, o, err := begin(ctx, nse.GetPathIds())
	if err != nil {
		return nil, s.proxy.end(ctx, key, path, o, err)
	}
	resp, err := next.NetworkServiceEndpointRegistryServer(ctx).Unregister(hopCtx, nse)
	if err = s.proxy.end(ctx, key, path, o, err); err != nil {
		return nil, err
	}
	return resp, nil
}

// authorizeNSEServer is the chain element that checks the caller and cuts the path_ids.
type authorizeNSEServer struct{ proxy *Proxy }

func (s authorizeNSEServer) Register(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*registry.NetworkServiceEndpoint, error) {
	if err := s.proxy.authorize(ctx, shard.NSEKey(nse.GetName())); err != nil {
		return nil, err
	}
	nse.PathIds = cut(ctx, nse.GetPathIds())
	return next.NetworkServiceEndpointRegistryServer(ctx).Register(ctx, nse)
}

func (s authorizeNSEServer) Find(query *registry.NetworkServiceEndpointQuery, server registry.NetworkServiceEndpointRegistry_FindServer) error {
	return next.NetworkServiceEndpointRegistryServer(server.Context()).Find(query, server)
}

func (s authorizeNSEServer) Unregister(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*empty.Empty, error) {
	if err := s.proxy.authorize(ctx, shard.NSEKey(nse.GetName())); err != nil {
		return nil, err
	}
	nse.PathIds = cut(ctx, nse.GetPathIds())
	return next.NetworkServiceEndpointRegistryServer(ctx).Unregister(ctx, nse)
}

// withHop returns the elements of the hop in front of last.
func (p *Proxy) withNSEHop(last registry.NetworkServiceEndpointRegistryServer) registry.NetworkServiceEndpointRegistryServer {
	if p.options.Hop == nil {
		return last
	}
	return next.NewNetworkServiceEndpointRegistryServer(
		hopNSEServer{p},
		updatepath.NewNetworkServiceEndpointRegistryServer(p.options.Hop.Tokens),
		authorizeNSEServer{p},
		last,
	)
}
