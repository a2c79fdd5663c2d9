// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRegistryHeals has a part of the registry end under a connection. The connection has to go on, and the endpoint has
// to be found by new clients.
func TestRegistryHeals(t *testing.T) {
	for _, row := range []struct {
		name string
		ends func(m *mesh)
		// again says that the endpoint registers again: its member is lost, or its watch at registry-lb.
		again bool
	}{
		{
			name:  "the endpoint's member restarts with nothing in memory",
			ends:  func(m *mesh) { m.restart(registry1) },
			again: true,
		},
		{
			name:  "the endpoint's member is lost, and registry-lb has to find out",
			ends:  func(m *mesh) { m.crash(registry1) },
			again: true,
		},
		{
			name:  "the endpoint's member is lost, and registry-lb is told",
			ends:  func(m *mesh) { m.crash(registry1); m.tell() },
			again: true,
		},
		{
			name:  "the forwarder's member restarts with nothing in memory",
			ends:  func(m *mesh) { m.restart(registry0) },
			again: false,
		},
		{
			name: "all members restart with nothing in memory",
			ends: func(m *mesh) {
				m.restart(registry0)
				m.restart(registry1)
				m.restart(registry2)
			},
			again: true,
		},
		{
			name:  "registry-lb restarts",
			ends:  func(m *mesh) { m.Registry.Restart() },
			again: true,
		},
		{
			name: "registry-lb and the endpoint's member restart together",
			ends: func(m *mesh) {
				m.crash(registry1)
				m.start(registry1)
				m.Registry.Restart()
			},
			again: true,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx := newContext(t)
			m := newMesh(ctx, t, meshOptions{nodes: 2})
			m.service(ctx, "coffee")
			nse := m.endpoint(ctx, 1, m.nameAt(registry1, "endpoint"), "coffee")
			client := m.client(ctx, 0, "client")
			client.connect(ctx, "1", "coffee")
			before := len(m.calls.registersOf(nse.Name))

			row.ends(m)

			if row.again {
				eventually(t, func() bool { return len(m.calls.registersOf(nse.Name)) > before }, "the endpoint did not register again")
			}
			eventually(t, func() bool { return m.found(ctx, nse.Name) }, "the endpoint is not found any more")
			require.Len(t, m.holders(ctx, nse.Name), 1)
			client.refresh(ctx)
			require.Equal(t, nse.Name, client.conn.GetNetworkServiceEndpointName())
			require.Len(t, client.conn.GetPath().GetPathSegments(), remotePath)
			another := m.client(ctx, 1, "another client")
			another.connect(ctx, "2", "coffee")
			require.Equal(t, nse.Name, another.conn.GetNetworkServiceEndpointName())
			require.Equal(t, 2, nse.UniqueRequests())

			client.close(ctx)
			another.close(ctx)
			nse.unregister(ctx, t)
			require.Empty(t, m.holders(ctx, nse.Name))
		})
	}
}

// TestEndpointHeals has an endpoint end under a connection: another one takes over, which is known to another member.
func TestEndpointHeals(t *testing.T) {
	for _, row := range []struct {
		name string
		node int // of the endpoints; the client is on the first one
	}{
		{name: "on the client's node", node: 0},
		{name: "on another node", node: 1},
	} {
		for _, early := range []bool{false, true} {
			name := row.name + ", the other one comes later"
			if early {
				name = row.name + ", the other one is there before"
			}
			t.Run(name, func(t *testing.T) {
				ctx := newContext(t)
				m := newMesh(ctx, t, meshOptions{nodes: 2})
				m.service(ctx, "coffee")
				first := m.endpoint(ctx, row.node, m.nameAt(registry1, "first"), "coffee")
				client := m.client(ctx, 0, "client")
				client.connect(ctx, "1", "coffee")
				require.Equal(t, first.Name, client.conn.GetNetworkServiceEndpointName())

				second := m.nameAt(registry2, "second")
				var other *endpoint
				if early {
					other = m.endpoint(ctx, row.node, second, "coffee")
				}
				first.Cancel()
				if !early {
					other = m.endpoint(ctx, row.node, second, "coffee")
				}

				eventually(t, func() bool { return other.Requests() > 0 }, "the connection did not heal")
				client.refresh(ctx)
				require.Equal(t, second, client.conn.GetNetworkServiceEndpointName())
				client.close(ctx)
				require.Positive(t, other.Closes())
				require.Equal(t, []string{registry2}, m.holders(ctx, second))
			})
		}
	}
}

// TestManagerHeals has the client's nsmgr restart under a connection: what it asks registry-lb anew has to be there.
func TestManagerHeals(t *testing.T) {
	ctx := newContext(t)
	m := newMesh(ctx, t, meshOptions{nodes: 2})
	m.service(ctx, "coffee")
	nse := m.endpoint(ctx, 1, m.nameAt(registry1, "endpoint"), "coffee")
	client := m.client(ctx, 0, "client")
	client.connect(ctx, "1", "coffee")

	m.Nodes[0].NSMgr.Restart()

	eventually(t, func() bool { return nse.Requests() > 1 }, "the connection did not heal")
	client.refresh(ctx)
	require.Len(t, client.conn.GetPath().GetPathSegments(), remotePath)
	client.close(ctx)
	require.Equal(t, 1, nse.UniqueRequests())
}
