// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// TestOneNameOneMember is guarantee G1: Register, Unregister and Find by name of one name reach the same member, while
// others call at the same time, and whatever the order in which members are listed.
func TestOneNameOneMember(t *testing.T) {
	t.Parallel()
	all := make([]shard.Member, 0, 6)
	for i := range cap(all) {
		m := startScripted(t, fmt.Sprintf("registry-%d", i))
		m.set(func(*call) error { return status.Error(codes.NotFound, m.Name) })
		all = append(all, m.Member)
	}
	type world struct {
		front *front
		ring  *shard.Ring
	}
	worlds := make([]world, 0, len(all))
	for count := 1; count < len(all); count += 2 {
		members := rapid.Permutation(all).Example(count)[:count+1]
		ring := make([]string, 0, len(members))
		for _, m := range members {
			ring = append(ring, m.Name)
		}
		worlds = append(worlds, world{startFront(t, proxy.Options{}, members...), shard.NewRing(ring)})
	}
	rapid.Check(t, func(rt *rapid.T) {
		w := rapid.SampledFrom(worlds).Draw(rt, "members")
		names := rapid.SliceOfNDistinct(rapid.String(), 1, 5, rapid.ID).Draw(rt, "names")
		front := w.front
		var group sync.WaitGroup
		var mu sync.Mutex
		asked := make(map[shard.Key]map[string]int)
		for _, name := range names {
			for _, f := range []flavour{nseFlavour(), nsFlavour()} {
				for _, op := range []func() error{
					func() error { _, err := f.register(t.Context(), front.cc, f.item(name)); return err },
					func() error { _, err := f.unregister(t.Context(), front.cc, f.item(name)); return err },
					func() error {
						if name == "" {
							return status.Error(codes.NotFound, front.holder(t, f.key(name))) // not a name to Find
						}
						_, err := f.list(t.Context(), front.cc, f.query(name, false))
						return err
					},
				} {
					group.Go(func() {
						err := op()
						mu.Lock()
						defer mu.Unlock()
						if asked[f.key(name)] == nil {
							asked[f.key(name)] = make(map[string]int)
						}
						asked[f.key(name)][status.Convert(err).Message()]++
					})
				}
			}
		}
		group.Wait()
		for key, by := range asked {
			want, _ := w.ring.Locate(key)
			require.Equal(rt, map[string]int{want: 3}, by, "%v", key)
		}
	})
}

// TestCallsOfOneNameShareAConnection is what keeps them in order: a member reads one connection in order.
func TestCallsOfOneNameShareAConnection(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	m := startScripted(t, "a")
	var mu sync.Mutex
	from := make(map[string]map[string]struct{}) // name -> addresses
	m.set(func(c *call) error {
		mu.Lock()
		defer mu.Unlock()
		if from[c.name()] == nil {
			from[c.name()] = make(map[string]struct{})
		}
		from[c.name()][peerOf(c)] = struct{}{}
		return status.Error(codes.NotFound, "seen")
	})
	front := startFront(t, proxy.Options{}, m.Member)
	all := make(map[string]struct{})
	for i := range 20 {
		name := fmt.Sprint("name-", i)
		for range 3 {
			_, err := f.register(within(t), front.cc, f.item(name))
			requireCode(t, codes.NotFound, err)
			_, err = f.unregister(within(t), front.cc, f.item(name))
			requireCode(t, codes.NotFound, err)
			_, err = f.list(within(t), front.cc, f.query(name, false))
			requireCode(t, codes.NotFound, err)
		}
		require.Len(t, from[name], 1)
		for addr := range from[name] {
			all[addr] = struct{}{}
		}
	}
	require.Greater(t, len(all), 1, "one connection for everything")
	_, err := f.list(within(t), front.cc, f.query("watched", true))
	requireCode(t, codes.NotFound, err)
	for addr := range from["watched"] {
		require.NotContains(t, all, addr, "watches have connections of their own")
	}
}

// TestSpacesAreApart has names of one space that do not decide where those of the other go.
func TestSpacesAreApart(t *testing.T) {
	t.Parallel()
	members := startScripteds(t, "a", "b", "c")
	front := startFront(t, proxy.Options{}, describe(members)...)
	apart := 0
	for i := range 100 {
		name := fmt.Sprint("name-", i)
		if front.holder(t, shard.NSEKey(name)) != front.holder(t, shard.NSKey(name)) {
			apart++
		}
	}
	require.Greater(t, apart, 30)
}
