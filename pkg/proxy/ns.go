// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"time"

	"github.com/golang/protobuf/ptypes/empty"
	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/core/next"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// nsServer is the chain element for NSs.
type nsServer struct {
	proxy                *Proxy
	register, unregister *rpc
	find                 *finder[*registry.NetworkServiceQuery, *registry.NetworkServiceResponse]
}

func newNSServer(p *Proxy) *nsServer {
	k := nsKind()
	return &nsServer{
		proxy:      p,
		register:   p.metrics.rpc(k.service, methodRegister),
		unregister: p.metrics.rpc(k.service, methodUnregister),
		find:       newFinder(p, k),
	}
}

func (s *nsServer) Register(ctx context.Context, ns *registry.NetworkService) (*registry.NetworkService, error) {
	key, resp := shard.NSKey(ns.GetName()), new(registry.NetworkService)
	err := s.proxy.unary(ctx, s.register, key, ns.GetPathIds(), ns, resp, func(m *member) {
		s.proxy.registered(key, m, resp.GetPathIds(), time.Time{})
	})
	if err != nil {
		return nil, err
	}
	return next.NetworkServiceRegistryServer(ctx).Register(ctx, resp)
}

func (s *nsServer) Find(query *registry.NetworkServiceQuery, server registry.NetworkServiceRegistry_FindServer) error {
	if err := s.find.serve(query, server); err != nil {
		return err
	}
	return next.NetworkServiceRegistryServer(server.Context()).Find(query, server)
}

func (s *nsServer) Unregister(ctx context.Context, ns *registry.NetworkService) (*empty.Empty, error) {
	key, resp := shard.NSKey(ns.GetName()), new(empty.Empty)
	err := s.proxy.unary(ctx, s.unregister, key, ns.GetPathIds(), ns, resp, func(*member) {
		s.proxy.unregistered(key)
	})
	if err != nil {
		return nil, err
	}
	if _, err := next.NetworkServiceRegistryServer(ctx).Unregister(ctx, ns); err != nil {
		return nil, err
	}
	return resp, nil
}
