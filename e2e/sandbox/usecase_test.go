// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClientReachesEndpoint(t *testing.T) {
	for _, row := range []struct {
		name string
		node int // of the endpoint; the client is on the first one
		path int
	}{
		{name: "on its own node", node: 0, path: localPath},
		{name: "on another node", node: 1, path: remotePath},
	} {
		for _, plain := range []bool{false, true} {
			name := row.name + " through a hop of the path"
			if plain {
				name = row.name + " through a registry-lb that passes metadata unchanged"
			}
			t.Run(name, func(t *testing.T) {
				ctx := newContext(t)
				m := newMesh(ctx, t, meshOptions{nodes: 2, plain: plain})
				m.service(ctx, "coffee")
				nse := m.endpoint(ctx, row.node, m.nameAt(registry1, "endpoint"), "coffee")
				require.Equal(t, []string{registry1}, m.holders(ctx, nse.Name))
				client := m.client(ctx, 0, "client")

				client.connect(ctx, "1", "coffee")
				require.Equal(t, nse.Name, client.conn.GetNetworkServiceEndpointName())
				require.Len(t, client.conn.GetPath().GetPathSegments(), row.path)
				client.refresh(ctx)
				require.Len(t, client.conn.GetPath().GetPathSegments(), row.path)
				require.Equal(t, 2, nse.Requests())
				client.close(ctx)
				require.Equal(t, 1, nse.Closes())

				nse.unregister(ctx, t)
				require.Empty(t, m.holders(ctx, nse.Name))
				require.False(t, m.found(ctx, nse.Name))
			})
		}
	}
}

// TestManyNodes has clients on all nodes reach endpoints on all nodes, at the same time.
func TestManyNodes(t *testing.T) {
	const nodes = 3
	ctx := newContext(t)
	m := newMesh(ctx, t, meshOptions{nodes: nodes})
	endpoints := make([]*endpoint, nodes)
	for i := range nodes {
		service := fmt.Sprintf("service-%d", i)
		m.service(ctx, service)
		at := []string{registry0, registry1, registry2}[i]
		endpoints[i] = m.endpoint(ctx, i, m.nameAt(at, "endpoint"), service)
		require.Equal(t, []string{at}, m.holders(ctx, endpoints[i].Name))
	}
	require.Equal(t, []string{registry0, registry1, registry2}, m.calls.membersAsked())

	clients := make([]*nsc, 0, nodes*nodes)
	for node := range nodes {
		for i := range nodes {
			clients = append(clients, m.client(ctx, node, fmt.Sprintf("client-%d-%d", node, i)))
		}
	}
	var group sync.WaitGroup
	errs := make([]error, len(clients))
	for i, c := range clients {
		group.Go(func() {
			if errs[i] = c.tryConnect(ctx, fmt.Sprint(i), fmt.Sprintf("service-%d", i%nodes)); errs[i] == nil {
				errs[i] = c.tryRefresh(ctx)
			}
		})
	}
	group.Wait()
	for i, c := range clients {
		require.NoError(t, errs[i])
		require.Equal(t, endpoints[i%nodes].Name, c.conn.GetNetworkServiceEndpointName())
		c.close(ctx)
	}
	for _, nse := range endpoints {
		require.Equal(t, nodes, nse.UniqueRequests(), "one client of each node reached %s", nse.Name)
		require.Equal(t, nodes, nse.UniqueCloses())
		nse.unregister(ctx, t)
		require.Empty(t, m.holders(ctx, nse.Name))
	}
}
