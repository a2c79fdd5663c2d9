// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/tools/sandbox"
	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	// shortToken is how long a token is good whose owner is to refresh or to expire within a test.
	shortToken = 6 * time.Second
	// callTimeout is how long a call with such a token may take. Registries give up an NSE that much before its token
	// ends, and clients refresh after two thirds of its life.
	callTimeout = time.Second
)

// door is where an endpoint registers.
type door struct {
	name string
	open func(ctx context.Context, m *mesh) registry.NetworkServiceEndpointRegistryClient
}

func doors() []door {
	tokens := sandbox.GenerateExpiringToken(shortToken)
	return []door{
		{"through nsmgr", func(ctx context.Context, m *mesh) registry.NetworkServiceEndpointRegistryClient {
			return nseClient(ctx, m.t, m.Nodes[0].NSMgr.URL, tokens)
		}},
		{"at registry-lb", func(ctx context.Context, m *mesh) registry.NetworkServiceEndpointRegistryClient {
			return nseClient(ctx, m.t, m.Registry.URL, tokens)
		}},
	}
}

func registerShortly(ctx context.Context, t *testing.T, client registry.NetworkServiceEndpointRegistryClient, name string) *registry.NetworkServiceEndpoint {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	nse, err := client.Register(ctx, &registry.NetworkServiceEndpoint{
		Name:                name,
		NetworkServiceNames: []string{"coffee"},
		Url:                 "tcp://127.0.0.1:1", // nobody connects
	})
	require.NoError(t, err)
	return nse
}

// TestRefresh has an endpoint live longer than its token: each refresh reaches the same member, and at no time is it not
// found.
func TestRefresh(t *testing.T) {
	for _, door := range doors() {
		t.Run(door.name, func(t *testing.T) {
			ctx := newContext(t)
			m := newMesh(ctx, t, meshOptions{nodes: 1})
			client := door.open(ctx, m)
			nse := registerShortly(ctx, t, client, m.nameAt(registry2, "endpoint"))
			lives := nse.GetExpirationTime().AsTime()
			require.WithinDuration(t, time.Now().Add(shortToken), lives, callTimeout)

			eventually(t, func() bool {
				require.True(t, m.found(ctx, nse.Name), "the endpoint expired though it refreshes")
				return len(m.calls.registersOf(nse.Name)) >= 3 && time.Now().After(lives)
			}, "the endpoint did not refresh")
			for _, member := range m.calls.registersOf(nse.Name) {
				require.Equal(t, registry2, member)
			}

			_, err := client.Unregister(ctx, nse)
			require.NoError(t, err)
			require.Empty(t, m.holders(ctx, nse.Name))
		})
	}
}

// TestExpire has an endpoint end without a word: it disappears from its member and from registry-lb, and who watches
// hears of it.
func TestExpire(t *testing.T) {
	for _, door := range doors() {
		t.Run(door.name, func(t *testing.T) {
			ctx := newContext(t)
			m := newMesh(ctx, t, meshOptions{nodes: 1})
			watch := m.watch(ctx, "coffee")
			silent, end := context.WithCancel(ctx)
			nse := registerShortly(ctx, t, door.open(silent, m), m.nameAt(registry1, "endpoint"))
			end()
			require.Equal(t, []string{registry1}, m.holders(ctx, nse.Name))
			watch.hears(nse.Name, false)

			eventually(t, func() bool { return len(m.holders(ctx, nse.Name)) == 0 }, "the endpoint did not expire")
			watch.hears(nse.Name, true)
			require.False(t, m.found(ctx, nse.Name))
			eventually(t, func() bool {
				route, ok := m.proxy.Locate(shard.NSEKey(nse.Name))
				return ok && route.Reason == shard.ReasonRing
			}, "registry-lb still has a holder of an NSE that expired")
			require.Len(t, m.calls.registersOf(nse.Name), 1)
		})
	}
}

// TestNoDeadline has an endpoint register with a call that has no deadline. A registry gives an NSE up by as much before
// its token ends as the call that registered it might have taken; if registry-lb told it a deadline of its own, the
// endpoint would be given up at once.
func TestNoDeadline(t *testing.T) {
	ctx := newContext(t)
	m := newMesh(ctx, t, meshOptions{})
	began := time.Now()
	client := m.raw(t, sandbox.GenerateExpiringToken(shortToken))
	nse, err := client.Register(context.WithoutCancel(ctx), &registry.NetworkServiceEndpoint{
		Name: m.nameAt(registry1, "endpoint"),
		Url:  "tcp://127.0.0.1:1", // nobody connects
	})
	require.NoError(t, err)
	ends := nse.GetExpirationTime().AsTime()
	require.WithinDuration(t, began.Add(shortToken), ends, callTimeout)

	eventually(t, func() bool { return len(m.holders(ctx, nse.Name)) == 0 }, "the endpoint did not expire")
	require.WithinDuration(t, ends, time.Now(), shortToken/2, "the endpoint was given up long before its token ended")
}

// TestUnregister has an endpoint leave: it is gone from its member, and who watches hears of it.
func TestUnregister(t *testing.T) {
	ctx := newContext(t)
	m := newMesh(ctx, t, meshOptions{nodes: 2})
	m.service(ctx, "coffee")
	watch := m.watch(ctx, "coffee")
	for _, at := range []string{registry0, registry1, registry2} {
		nse := m.endpoint(ctx, 1, m.nameAt(at, "endpoint"), "coffee")
		require.Equal(t, []string{at}, m.holders(ctx, nse.Name))
		watch.hears(nse.Name, false)
		nse.unregister(ctx, t)
		require.Empty(t, m.holders(ctx, nse.Name))
		watch.hears(nse.Name, true)
		require.False(t, m.found(ctx, nse.Name))
	}
}

// watch is a client that watches the endpoints of an NS through the nsmgr of the first node.
type watch struct {
	t      *testing.T
	stream registry.NetworkServiceEndpointRegistry_FindClient
}

func (m *mesh) watch(ctx context.Context, service string) *watch {
	m.t.Helper()
	stream, err := nseClient(ctx, m.t, m.Nodes[0].NSMgr.URL, tokensOf(m.t, "watcher")).Find(ctx, &registry.NetworkServiceEndpointQuery{
		NetworkServiceEndpoint: &registry.NetworkServiceEndpoint{NetworkServiceNames: []string{service}},
		Watch:                  true,
	})
	require.NoError(m.t, err)
	return &watch{t: m.t, stream: stream}
}

// hears waits until the watch says of an endpoint that it is there, or that it is deleted. Nothing may come before but
// what has been said already.
func (w *watch) hears(nse string, deleted bool) {
	w.t.Helper()
	for {
		resp, err := w.stream.Recv()
		require.NoError(w.t, err)
		require.Equal(w.t, nse, resp.GetNetworkServiceEndpoint().GetName())
		if resp.GetDeleted() == deleted {
			return
		}
	}
}
