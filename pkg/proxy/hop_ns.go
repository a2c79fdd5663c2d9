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

// hopNSServer is the chain element that begins and ends the hop for NSs.
type hopNSServer struct{ proxy *Proxy }

func (s hopNSServer) Register(ctx context.Context, ns *registry.NetworkService) (*registry.NetworkService, error) {
	key := shard.NSKey(ns.GetName())
	hopCtx, path, o, err := begin(ctx, ns.GetPathIds())
	if err != nil {
		return nil, s.proxy.end(ctx, key, path, o, err)
	}
	resp, err := next.NetworkServiceRegistryServer(ctx).Register(hopCtx, ns)
	if err = s.proxy.end(ctx, key, path, o, err); err != nil {
		return nil, err
	}
	return resp, nil
}

func (hopNSServer) Find(query *registry.NetworkServiceQuery, server registry.NetworkServiceRegistry_FindServer) error {
	return next.NetworkServiceRegistryServer(server.Context()).Find(query, server)
}

func (s hopNSServer) Unregister(ctx context.Context, ns *registry.NetworkService) (*empty.Empty, error) {
	key := shard.NSKey(ns.GetName())
	hopCtx, path, o, err := begin(ctx, ns.GetPathIds())
	if err != nil {
		return nil, s.proxy.end(ctx, key, path, o, err)
	}
	resp, err := next.NetworkServiceRegistryServer(ctx).Unregister(hopCtx, ns)
	if err = s.proxy.end(ctx, key, path, o, err); err != nil {
		return nil, err
	}
	return resp, nil
}

// authorizeNSServer is the chain element that checks the caller and cuts the path_ids.
type authorizeNSServer struct{ proxy *Proxy }

func (s authorizeNSServer) Register(ctx context.Context, ns *registry.NetworkService) (*registry.NetworkService, error) {
	if err := s.proxy.authorize(ctx, shard.NSKey(ns.GetName())); err != nil {
		return nil, err
	}
	ns.PathIds = cut(ctx, ns.GetPathIds())
	return next.NetworkServiceRegistryServer(ctx).Register(ctx, ns)
}

func (s authorizeNSServer) Find(query *registry.NetworkServiceQuery, server registry.NetworkServiceRegistry_FindServer) error {
	return next.NetworkServiceRegistryServer(server.Context()).Find(query, server)
}

func (s authorizeNSServer) Unregister(ctx context.Context, ns *registry.NetworkService) (*empty.Empty, error) {
	if err := s.proxy.authorize(ctx, shard.NSKey(ns.GetName())); err != nil {
		return nil, err
	}
	ns.PathIds = cut(ctx, ns.GetPathIds())
	return next.NetworkServiceRegistryServer(ctx).Unregister(ctx, ns)
}

// withHop returns the elements of the hop in front of last.
func (p *Proxy) withNSHop(last registry.NetworkServiceRegistryServer) registry.NetworkServiceRegistryServer {
	if p.options.Hop == nil {
		return last
	}
	return next.NewNetworkServiceRegistryServer(
		hopNSServer{p},
		updatepath.NewNetworkServiceRegistryServer(p.options.Hop.Tokens),
		authorizeNSServer{p},
		last,
	)
}
