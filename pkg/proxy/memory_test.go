// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/golang/protobuf/ptypes/empty"
	"github.com/networkservicemesh/api/pkg/api/registry"
	sdkregistry "github.com/networkservicemesh/sdk/pkg/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/chains/memory"
	"github.com/networkservicemesh/sdk/pkg/registry/core/chain"
	"github.com/networkservicemesh/sdk/pkg/registry/core/next"
	"github.com/networkservicemesh/sdk/pkg/tools/sandbox"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// startMemory starts the SDK's memory registry as registry-memory does, behind a doorkeeper.
func startMemory(tb testing.TB, name string) shard.Member {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	inner := memory.NewServer(ctx, sandbox.GenerateTestToken)
	outer := sdkregistry.NewServer(
		inner.NetworkServiceRegistryServer(),
		chain.NewNetworkServiceEndpointRegistryServer(new(doorkeeper), inner.NetworkServiceEndpointRegistryServer()),
	)
	s := grpc.NewServer()
	outer.Register(s)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	go func() { _ = s.Serve(l) }()
	tb.Cleanup(func() { s.Stop(); cancel() })
	return shard.Member{Name: name, UID: name, Addrs: []string{l.Addr().String()}}
}

func startMemories(tb testing.TB, n int) []shard.Member {
	tb.Helper()
	members := make([]shard.Member, 0, n)
	for i := range n {
		members = append(members, startMemory(tb, fmt.Sprintf("registry-%d", i)))
	}
	return members
}

// doorkeeper refuses to refresh or unregister an NSE whose Register this replica has not seen, as registries did before
// the fix of sdk issue 1515.
type doorkeeper struct {
	known sync.Map
}

func (d *doorkeeper) check(nse *registry.NetworkServiceEndpoint) error {
	if _, ok := d.known.Load(nse.GetName()); !ok {
		return status.Errorf(codes.InvalidArgument, "%s has not been registered here", nse.GetName())
	}
	return nil
}

func (d *doorkeeper) Register(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*registry.NetworkServiceEndpoint, error) {
	if nse.GetInitialRegistrationTime() != nil {
		if err := d.check(nse); err != nil {
			return nil, err
		}
	}
	resp, err := next.NetworkServiceEndpointRegistryServer(ctx).Register(ctx, nse)
	if err == nil {
		d.known.Store(resp.GetName(), nil)
	}
	return resp, err
}

func (d *doorkeeper) Find(query *registry.NetworkServiceEndpointQuery, server registry.NetworkServiceEndpointRegistry_FindServer) error {
	return next.NetworkServiceEndpointRegistryServer(server.Context()).Find(query, server)
}

func (d *doorkeeper) Unregister(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*empty.Empty, error) {
	if err := d.check(nse); err != nil {
		return nil, err
	}
	return next.NetworkServiceEndpointRegistryServer(ctx).Unregister(ctx, nse)
}
