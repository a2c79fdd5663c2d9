// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"testing"

	"github.com/networkservicemesh/sdk/pkg/tools/interdomain"
	"github.com/networkservicemesh/sdk/pkg/tools/sandbox"
	"github.com/stretchr/testify/require"
)

// TestOtherDomain has a client reach an endpoint of another domain. Either domain has a registry-lb; the members know
// where other domains are asked for.
func TestOtherDomain(t *testing.T) {
	ctx := newContext(t)
	resolver := sandbox.NewFakeResolver()
	here := newMesh(ctx, t, meshOptions{nodes: 1, name: "here.test", resolver: resolver})
	there := newMesh(ctx, t, meshOptions{nodes: 1, name: "there.test", resolver: resolver})
	there.service(ctx, "coffee")
	nse := there.endpoint(ctx, 0, there.nameAt(registry1, "endpoint"), "coffee")
	client := here.client(ctx, 0, "client")

	client.connect(ctx, "1", interdomain.Join("coffee", there.Name))
	require.Len(t, client.conn.GetPath().GetPathSegments(), interdomainPath)
	require.Equal(t, interdomain.Join(nse.Name, there.Name), client.conn.GetNetworkServiceEndpointName())
	client.refresh(ctx)
	require.Equal(t, 2, nse.Requests())
	require.True(t, here.found(ctx, interdomain.Join(nse.Name, there.Name)), "an endpoint of another domain is not found by name")
	require.Empty(t, here.holders(ctx, nse.Name), "the name has been kept in the wrong domain")

	for _, m := range []*mesh{here, there} {
		m.Registry.Restart()
		client.refresh(ctx)
		require.Len(t, client.conn.GetPath().GetPathSegments(), interdomainPath)
	}
	client.close(ctx)
	require.Equal(t, 1, nse.UniqueRequests())
	require.Equal(t, 1, nse.Closes())
}

// TestFloatingDomain has an endpoint register in a domain of which no client is part, and a client find it there.
func TestFloatingDomain(t *testing.T) {
	ctx := newContext(t)
	resolver := sandbox.NewFakeResolver()
	here := newMesh(ctx, t, meshOptions{nodes: 1, name: "here.test", resolver: resolver})
	there := newMesh(ctx, t, meshOptions{nodes: 1, name: "there.test", resolver: resolver})
	floating := newMesh(ctx, t, meshOptions{name: "floating.test", resolver: resolver, floating: true})
	there.service(ctx, interdomain.Join("coffee", floating.Name))
	endpoints := make([]*endpoint, 2)
	for i, at := range []string{registry1, registry2} {
		name := there.nameAt(at, interdomain.Join("endpoint", floating.Name))
		endpoints[i] = there.endpoint(ctx, 0, name, "coffee")
		require.True(t, there.found(ctx, name))
		require.True(t, here.found(ctx, name))
		require.Equal(t, []string{at}, there.calls.registersOf(name))
		require.Empty(t, there.holders(ctx, interdomain.Target(name)))
	}
	require.Len(t, find(ctx, t, floating.nses(ctx, "dashboard"), ""), len(endpoints))

	client := here.client(ctx, 0, "client")
	client.connect(ctx, "1", interdomain.Join("coffee", floating.Name))
	require.Len(t, client.conn.GetPath().GetPathSegments(), interdomainPath)
	client.refresh(ctx)
	client.close(ctx)
	require.Equal(t, 2, endpoints[0].Requests()+endpoints[1].Requests())

	for _, nse := range endpoints {
		nse.unregister(ctx, t)
		require.False(t, here.found(ctx, nse.Name))
	}
	require.Empty(t, find(ctx, t, floating.nses(ctx, "dashboard"), ""))
}
