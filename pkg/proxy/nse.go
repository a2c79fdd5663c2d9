// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"

	"github.com/golang/protobuf/ptypes/empty"
	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/core/next"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// nseServer is the chain element for NSEs.
type nseServer struct {
	proxy                *Proxy
	register, unregister *rpc
	find                 *finder[*registry.NetworkServiceEndpointQuery, *registry.NetworkServiceEndpointResponse]
}

func newNSEServer(p *Proxy) *nseServer {
	k := nseKind()
	return &nseServer{
		proxy:      p,
		register:   p.metrics.rpc(k.service, methodRegister),
		unregister: p.metrics.rpc(k.service, methodUnregister),
		find:       newFinder(p, k),
	}
}

func (s *nseServer) Register(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*registry.NetworkServiceEndpoint, error) {
	key, resp := shard.NSEKey(nse.GetName()), new(registry.NetworkServiceEndpoint)
	nse = s.proxy.withExpiration(ctx, nse)
	err := s.proxy.unary(ctx, s.register, key, nse.GetPathIds(), nse, resp, func(m *member) {
		s.proxy.registered(key, m, resp.GetPathIds(), s.proxy.storedExpiration(nse, resp))
	})
	if err != nil {
		return nil, err
	}
	return next.NetworkServiceEndpointRegistryServer(ctx).Register(ctx, resp)
}

func (s *nseServer) Find(query *registry.NetworkServiceEndpointQuery, server registry.NetworkServiceEndpointRegistry_FindServer) error {
	if err := s.find.serve(query, server); err != nil {
		return err
	}
	return next.NetworkServiceEndpointRegistryServer(server.Context()).Find(query, server)
}

func (s *nseServer) Unregister(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*empty.Empty, error) {
	key, resp := shard.NSEKey(nse.GetName()), new(empty.Empty)
	err := s.proxy.unary(ctx, s.unregister, key, nse.GetPathIds(), nse, resp, func(*member) {
		s.proxy.unregistered(key)
	})
	if err != nil {
		return nil, err
	}
	if _, err := next.NetworkServiceEndpointRegistryServer(ctx).Unregister(ctx, nse); err != nil {
		return nil, err
	}
	return resp, nil
}
