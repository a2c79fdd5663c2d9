// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// registry3 is a member that comes later.
const registry3 = "registry-3"

// TestMembersComeAndGo adds a member and removes another one while clients refresh their connections without pause.
func TestMembersComeAndGo(t *testing.T) {
	ctx := newContext(t)
	m := newMesh(ctx, t, meshOptions{nodes: 2})
	var endpoints []*endpoint
	var clients []*nsc
	connect := func(at string) {
		i := len(endpoints)
		service := fmt.Sprintf("service-%d", i)
		m.service(ctx, service)
		nse := m.endpoint(ctx, 1, m.nameAt(at, "endpoint"), service)
		require.Equal(t, []string{at}, m.holders(ctx, nse.Name))
		client := m.client(ctx, 0, fmt.Sprintf("client-%d", i))
		client.connect(ctx, fmt.Sprint(i), service)
		endpoints, clients = append(endpoints, nse), append(clients, client)
	}
	for _, at := range []string{registry0, registry1, registry2} {
		connect(at)
	}
	use := startUse(ctx, clients)

	m.add(registry3)
	connect(registry3)
	for _, nse := range endpoints {
		_, err := nse.NetworkServiceEndpointRegistryClient.Register(ctx, nse.nse.Clone())
		require.NoError(t, err)
	}
	for i, at := range []string{registry0, registry1, registry2, registry3} {
		require.Equal(t, []string{at}, m.holders(ctx, endpoints[i].Name), "a newcomer has moved a living name")
		require.Equal(t, []string{at, at}, m.calls.registersOf(endpoints[i].Name))
	}

	m.remove(registry1)
	lost := endpoints[1]
	eventually(t, func() bool { return len(m.holders(ctx, lost.Name)) == 1 }, "the endpoint of the member that left did not register elsewhere")
	for i, at := range []string{registry0, "", registry2, registry3} {
		if at != "" {
			require.Equal(t, []string{at}, m.holders(ctx, endpoints[i].Name), "a member that left has moved the name of another one")
		}
	}
	require.NoError(t, use.end())

	for i, client := range clients {
		client.refresh(ctx)
		require.Equal(t, endpoints[i].Name, client.conn.GetNetworkServiceEndpointName())
		client.close(ctx)
		require.Equal(t, 1, endpoints[i].UniqueRequests())
		endpoints[i].unregister(ctx, t)
		require.Empty(t, m.holders(ctx, endpoints[i].Name))
	}
}

// use has clients refresh their connections without pause.
type use struct {
	stop    context.CancelFunc
	running sync.WaitGroup
	errs    []error
}

func startUse(ctx context.Context, clients []*nsc) *use {
	stopped, stop := context.WithCancel(ctx)
	u := &use{stop: stop, errs: make([]error, len(clients))}
	for i, client := range clients {
		u.running.Go(func() {
			for stopped.Err() == nil && u.errs[i] == nil {
				u.errs[i] = client.tryRefresh(ctx)
			}
		})
	}
	return u
}

// end lets the refreshes under way end, and returns one that failed.
func (u *use) end() error {
	u.stop()
	u.running.Wait()
	for _, err := range u.errs {
		if err != nil {
			return err
		}
	}
	return nil
}
