// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/chains/client"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// troubles counts what went wrong with NSEs that were registered, refreshed, looked up and unregistered.
type troubles struct {
	registers, refreshes, finds, unregisters, leftBehind int
}

// lifeOfNSEs does that with n NSEs, each call over a connection of its own that dialNext gives, as NSM's clients do.
func lifeOfNSEs(t *testing.T, n int, dialNext func() *grpc.ClientConn) (got troubles) {
	t.Helper()
	ctx := t.Context()
	call := func(count *int, f func(c registry.NetworkServiceEndpointRegistryClient) error) {
		cc := dialNext()
		defer func() { _ = cc.Close() }()
		if f(registry.NewNetworkServiceEndpointRegistryClient(cc)) != nil {
			*count++
		}
	}
	for i := range n {
		nse := &registry.NetworkServiceEndpoint{Name: fmt.Sprintf("nse-%d", i), NetworkServiceNames: []string{"ns"}}
		register := func(c registry.NetworkServiceEndpointRegistryClient) error {
			resp, err := c.Register(ctx, nse.Clone())
			if err == nil {
				nse = resp
			}
			return err
		}
		call(&got.registers, register)
		call(&got.refreshes, register)
		call(&got.finds, func(c registry.NetworkServiceEndpointRegistryClient) error {
			stream, err := c.Find(ctx, &registry.NetworkServiceEndpointQuery{NetworkServiceEndpoint: &registry.NetworkServiceEndpoint{Name: nse.GetName()}})
			if err != nil {
				return err
			}
			if found := registry.ReadNetworkServiceEndpointList(stream); len(found) != 1 {
				return fmt.Errorf("found %d NSEs", len(found))
			}
			return nil
		})
		call(&got.unregisters, func(c registry.NetworkServiceEndpointRegistryClient) error {
			_, err := c.Unregister(ctx, nse)
			return err
		})
	}
	return got
}

// left returns how many NSEs the members have.
func left(t *testing.T, members []shard.Member) int {
	t.Helper()
	count := 0
	for _, m := range members {
		found, err := nseFlavour().list(within(t), dial(t, m.Addrs[0]), nseFlavour().query("", false))
		require.NoError(t, err)
		count += len(found)
	}
	return count
}

func TestFoundingBug(t *testing.T) {
	t.Parallel()
	const n = 200
	t.Run("round robin leaves NSEs behind", func(t *testing.T) {
		t.Parallel()
		members := startMemories(t, 4)
		calls := 0
		got := lifeOfNSEs(t, n, func() *grpc.ClientConn {
			m := members[calls%len(members)]
			calls++
			return dial(t, m.Addrs[0])
		})
		got.leftBehind = left(t, members)
		t.Logf("of %d NSEs: %+v", n, got)
		require.NotZero(t, got.finds, "this test no longer shows the bug")
		require.NotZero(t, got.refreshes)
		require.NotZero(t, got.unregisters)
		require.NotZero(t, got.leftBehind)
	})
	t.Run("registry-lb leaves none", func(t *testing.T) {
		t.Parallel()
		members := startMemories(t, 4)
		f := startFront(t, proxy.Options{Store: proxy.PartitionedStore}, members...)
		got := lifeOfNSEs(t, n, func() *grpc.ClientConn { return f.dial(t) })
		got.leftBehind = left(t, members)
		t.Logf("of %d NSEs: %+v", n, got)
		require.Zero(t, got)
	})
	t.Run("registry-lb serves the SDK's own client chain", func(t *testing.T) {
		t.Parallel()
		members := startMemories(t, 4)
		f := startFront(t, proxy.Options{Store: proxy.PartitionedStore}, members...)
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		options := []client.Option{
			client.WithClientURL(&url.URL{Scheme: "tcp", Host: f.addr}),
			client.WithDialOptions(grpc.WithTransportCredentials(insecure.NewCredentials())),
			client.WithDialTimeout(patience),
		}
		nses := client.NewNetworkServiceEndpointRegistryClient(ctx, options...)
		nss := client.NewNetworkServiceRegistryClient(ctx, options...)
		_, err := nss.Register(ctx, &registry.NetworkService{Name: "ns"})
		require.NoError(t, err)
		const some = 25
		registered := make([]*registry.NetworkServiceEndpoint, 0, some)
		for i := range some {
			nse, err := nses.Register(ctx, &registry.NetworkServiceEndpoint{Name: fmt.Sprintf("nse-%d", i), NetworkServiceNames: []string{"ns"}})
			require.NoError(t, err)
			nse, err = nses.Register(ctx, nse)
			require.NoError(t, err)
			registered = append(registered, nse)
		}
		require.Equal(t, some, left(t, members))
		stream, err := nses.Find(ctx, &registry.NetworkServiceEndpointQuery{
			NetworkServiceEndpoint: &registry.NetworkServiceEndpoint{NetworkServiceNames: []string{"ns"}},
		})
		require.NoError(t, err)
		require.Len(t, registry.ReadNetworkServiceEndpointList(stream), some)
		for _, nse := range registered {
			_, err := nses.Unregister(ctx, nse)
			require.NoError(t, err)
		}
		require.Zero(t, left(t, members))
	})
}
