// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	sdkclient "github.com/networkservicemesh/sdk/pkg/registry/chains/client"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest/observer"
)

func TestIdentityOfMembersIsLearnt(t *testing.T) {
	w := newWorld(t, 4)
	// It lives before registry-lb does.
	owner := w.client(t, "owner")
	nse := owner.mustRegister(t, w.replicas[2].addr, "nse")
	lb := w.startBalancer(t)
	lb.live(t, 4)
	ids := make(map[string]string)
	for _, m := range lb.members(t) {
		require.Len(t, m.Addresses, 1)
		ids[m.Addresses[0]] = m.SpiffeID
	}
	for _, r := range w.replicas {
		require.Equal(t, r.ID(), ids[r.addr])
	}
	var status struct {
		Ready      bool
		Keys       int
		Directory  struct{ Synced bool }
		Duplicates map[string][]string `json:"duplicate_spiffe_ids"`
	}
	lb.get(t, "/api/v1/status", &status)
	require.True(t, status.Ready)
	require.True(t, status.Directory.Synced)
	require.Empty(t, status.Duplicates)
	require.Equal(t, 1, status.Keys)
	var location struct{ Member, Reason string }
	lb.get(t, "/api/v1/locate?nse=nse", &location)
	require.Equal(t, "holder", location.Reason)
	require.Equal(t, w.replicas[2].addr, location.Member)
	refreshed, err := owner.register(t, lb.target, nse)
	require.NoError(t, err)
	require.Equal(t, w.replicas[2].ID(), holderOf(refreshed))
}

func TestIdentityServesTheSDKsClients(t *testing.T) {
	w := newWorld(t, 4)
	lb := w.startBalancer(t)
	lb.live(t, 4)
	c := w.client(t, "nse")
	ctx := log.WithLog(within(t), log.Empty())
	target, err := url.Parse(lb.target)
	require.NoError(t, err)
	nses := sdkclient.NewNetworkServiceEndpointRegistryClient(ctx,
		sdkclient.WithClientURL(target), sdkclient.WithDialTimeout(patience), sdkclient.WithDialOptions(c.dialOptions()...))
	for i := range 8 {
		ctx := grpcmetadata.PathWithContext(ctx, new(grpcmetadata.Path))
		nse, err := nses.Register(ctx, &registry.NetworkServiceEndpoint{Name: fmt.Sprintf("nse-%d", i), NetworkServiceNames: []string{"ns"}})
		require.NoError(t, err)
		holder := holderOf(nse)
		nse, err = nses.Register(ctx, nse)
		require.NoError(t, err)
		require.Equal(t, holder, holderOf(nse))
		stream, err := nses.Find(ctx, &registry.NetworkServiceEndpointQuery{NetworkServiceEndpoint: &registry.NetworkServiceEndpoint{Name: nse.GetName()}})
		require.NoError(t, err)
		require.Len(t, registry.ReadNetworkServiceEndpointList(stream), 1)
		_, err = nses.Unregister(ctx, nse)
		require.NoError(t, err)
		require.Zero(t, w.stored(t))
	}
}

func TestIdentityScaleUpMovesNoLivingKey(t *testing.T) {
	const n = 40
	w := newWorld(t, 4)
	lb := w.startBalancer(t)
	lb.live(t, 4)
	owner := w.client(t, "owner")
	living := make([]*registry.NetworkServiceEndpoint, 0, n)
	for i := range n {
		living = append(living, owner.mustRegister(t, lb.target, fmt.Sprintf("living-%d", i)))
	}
	w.replicas = append(w.replicas, w.startReplica(t, "registry-k8s-4"))
	w.list(t)
	lb.live(t, 5)
	for _, nse := range living {
		refreshed, err := owner.register(t, lb.target, nse)
		require.NoError(t, err)
		require.Equal(t, holderOf(nse), holderOf(refreshed), nse.GetName())
	}
	atNewcomer := 0
	for i := range n {
		if holderOf(owner.mustRegister(t, lb.target, fmt.Sprintf("new-%d", i))) == w.replicas[4].ID() {
			atNewcomer++
		}
	}
	require.NotZero(t, atNewcomer, "the newcomer has to get new keys")
}

// What is at the address of a replica may be something else by now.
func TestIdentityForeignPodGetsNoCalls(t *testing.T) {
	w := newWorld(t, 2)
	foreign := w.startReplica(t, "somebody")
	w.replicas = append(w.replicas, foreign)
	w.list(t)
	lb := w.startBalancer(t)
	lb.live(t, 2)
	owner := w.client(t, "owner")
	for i := range 20 {
		require.NotEqual(t, foreign.ID(), holderOf(owner.mustRegister(t, lb.target, fmt.Sprintf("nse-%d", i))))
	}
}

// Replicas that registry-lb can't talk to before it has a certificate are not dead.
func TestIdentityComesLate(t *testing.T) {
	w := newWorld(t, 3)
	w.agent.Stop()
	lb := w.launchBalancer(t)
	var status struct {
		NotReady []string `json:"not_ready"`
	}
	require.Eventually(t, func() bool {
		lb.get(t, "/api/v1/status", &status)
		return len(status.NotReady) > 0 && strings.Contains(status.NotReady[0], "no such file")
	}, patience, tick, "it has to say what it waits for")
	require.Contains(t, status.NotReady[0], "no certificate from the Workload API at "+w.agent.Addr())
	require.Empty(t, lb.members(t))
	require.NoError(t, w.agent.Start(t.Context()))
	lb.ready(t)
	lb.live(t, 3)
	require.Empty(t, lb.logs.FilterMessage("members changed").Filter(func(e observer.LoggedEntry) bool {
		return strings.Contains(fmt.Sprint(e.ContextMap()), "suspect")
	}).All(), "a living replica was taken for dead")
}

func TestIdentityRotationUnderAWatch(t *testing.T) {
	const (
		lifetime = 12 * time.Second
		every    = 3 * time.Second
	)
	w := newWorld(t, 2)
	stop := w.rotate(t, lifetime, every)
	began := time.Now()
	lb := w.startBalancer(t)
	lb.live(t, 2)
	watcher, owner := w.client(t, "watcher"), w.client(t, "owner")
	ctx, nses := watcher.at(t, lb.target)
	watch, err := nses.Find(ctx, &registry.NetworkServiceEndpointQuery{
		NetworkServiceEndpoint: &registry.NetworkServiceEndpoint{NetworkServiceNames: []string{"ns"}}, Watch: true,
	})
	require.NoError(t, err)
	seen := make(chan string)
	cut := make(chan error, 1)
	go func() {
		for {
			response, err := watch.Recv()
			if err != nil {
				cut <- err
				return
			}
			if !response.GetDeleted() {
				seen <- response.GetNetworkServiceEndpoint().GetName()
			}
		}
	}()
	shows := func(name string, within time.Duration) bool {
		timer := time.NewTimer(within)
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
				return false
			case err := <-cut:
				require.NoError(t, err, "the watch was cut")
			case other := <-seen:
				if other == name {
					return true
				}
			}
		}
	}
	// A registry first lists and then subscribes: what is registered in between it does not show. What is shown twice was
	// not in the list only.
	for i, times := 0, 0; times < 2; i++ {
		_, err = owner.register(t, lb.target, &registry.NetworkServiceEndpoint{
			Name: "open", NetworkServiceNames: []string{"ns"}, Url: fmt.Sprintf("tcp://127.0.0.1:%d", i+1),
		})
		require.NoError(t, err)
		if shows("open", time.Second) {
			times++
		}
	}
	// Calls, and what the watch shows of them, until the first SVID is long over.
	for i := 0; time.Since(began) < lifetime+2*every; i++ {
		name := fmt.Sprintf("nse-%d", i)
		nse := owner.mustRegister(t, lb.target, name)
		require.True(t, shows(name, patience), "the watch does not show %s", name)
		require.NoError(t, owner.unregister(t, lb.target, nse))
	}
	require.Greater(t, stop(), int(lifetime/every))
}

// What registry-lb has is good until it expires, and when the Workload API is back it gets the next one.
func TestIdentityGoesOnWithoutTheWorkloadAPI(t *testing.T) {
	w := newWorld(t, 2)
	lb := w.startBalancer(t)
	lb.live(t, 2)
	owner := w.client(t, "owner")
	use := func(name string) {
		nse := owner.mustRegister(t, lb.target, name)
		refreshed, err := owner.register(t, lb.target, nse)
		require.NoError(t, err)
		require.Equal(t, holderOf(nse), holderOf(refreshed))
		require.NoError(t, owner.unregister(t, lb.target, refreshed))
	}
	w.agent.Stop()
	require.Eventually(t, func() bool {
		return lb.logs.FilterMessageSnippet("the Workload API does not answer").Len() == 1
	}, patience, tick, "it has to say that the Workload API is gone")
	for i := range 8 {
		use(fmt.Sprintf("gone-%d", i))
	}
	lb.ready(t)

	w.renew(t, time.Hour)
	require.NoError(t, w.agent.Start(t.Context()))
	require.Eventually(t, func() bool { return lb.logs.FilterMessage("got an SVID").Len() == 2 }, patience, tick)
	for i := range 8 {
		use(fmt.Sprintf("back-%d", i))
	}
	lb.live(t, 2)
}
