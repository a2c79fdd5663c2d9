// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/chains/client"
	sdkauthorize "github.com/networkservicemesh/sdk/pkg/registry/common/authorize"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/networkservicemesh/registry-lb/internal/identity"
	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

// pathIDs are those of an NSE or NS.
func pathIDs(m proto.Message) []string { return m.(interface{ GetPathIds() []string }).GetPathIds() }

// setPathIDs gives an NSE or NS other ones.
func setPathIDs(m proto.Message, ids ...string) proto.Message {
	switch m := m.(type) {
	case *registry.NetworkServiceEndpoint:
		m.PathIds = ids
	case *registry.NetworkService:
		m.PathIds = ids
	}
	return m
}

// hopItem is what calls are about.
const hopItem = "item"

// stored is what a member has of it; nil if nothing.
func (m *hopMember) stored(tb testing.TB, f flavour) proto.Message {
	tb.Helper()
	responses, err := f.list(within(tb), m.reader, f.query(hopItem, false))
	require.NoError(tb, err)
	for _, r := range responses {
		switch r := r.(type) {
		case *registry.NetworkServiceEndpointResponse:
			return r.GetNetworkServiceEndpoint()
		case *registry.NetworkServiceResponse:
			return r.GetNetworkService()
		}
	}
	return nil
}

func tokensOf(path *grpcmetadata.Path) []string {
	tokens := make([]string, 0, len(path.PathSegments))
	for _, s := range path.PathSegments {
		tokens = append(tokens, s.Token)
	}
	return tokens
}

func TestHopIsASegmentOfThePath(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		s := newHopScene(t)
		member, front, c, cc := s.member, s.front, s.client, s.cc

		// What a member is sent: who called, and registry-lb with a token for that member.
		check := func(method string) {
			t.Helper()
			got := member.last(t)
			require.Equal(t, f.method(method), got.method)
			require.Len(t, got.md[clientToken], 1)
			requireToken(t, got.md[clientToken][0], front.party, member.party)
			require.Len(t, got.md[clientTokenExpires], 1)
			expires, err := time.Parse(time.RFC3339Nano, got.md[clientTokenExpires][0])
			require.NoError(t, err)
			require.WithinRange(t, expires, time.Now(), time.Now().Add(10*time.Minute))
			require.Equal(t, []string{c.ID(), front.ID()}, pathIDs(got.request)[:2])
			path := pathFrom(t, got.md)
			require.Equal(t, uint32(1), path.Index)
			require.Len(t, path.PathSegments, 2)
			requireToken(t, path.PathSegments[0].Token, c.party, front.party)
			require.Equal(t, front.ID(), subjectOf(path.PathSegments[1].Token))

			// And what comes back to who called.
			back := pathFrom(t, c.header)
			require.Zero(t, back.Index, "a client is told its own index")
			require.Len(t, back.PathSegments, 2, "what follows registry-lb is not for the client: %v", tokensOf(back))
			requireToken(t, back.PathSegments[0].Token, c.party, front.party)
			require.Equal(t, front.ID(), subjectOf(back.PathSegments[1].Token))
			require.Empty(t, c.header[clientToken])
		}
		all := []string{c.ID(), front.ID(), member.ID()}
		item, err := c.register(t, cc, f, f.item(hopItem))
		require.NoError(t, err)
		check("Register")
		require.Len(t, pathIDs(member.last(t).request), 2)
		require.Equal(t, all, pathIDs(item))
		require.Equal(t, all, pathIDs(member.stored(t, f)))

		item, err = c.register(t, cc, f, item)
		require.NoError(t, err)
		check("Register")
		require.Len(t, pathIDs(member.last(t).request), 2, "the member's own ID is its own affair")
		require.Equal(t, all, pathIDs(item))
		require.Equal(t, all, pathIDs(member.stored(t, f)))

		require.NoError(t, c.unregister(t, cc, f, item))
		check("Unregister")
		require.Nil(t, member.stored(t, f))
	})
}

func TestHopCutsStaleTails(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		s := newHopScene(t)
		member, front, c, cc := s.member, s.front, s.client, s.cc
		item := setPathIDs(f.item(hopItem), "a", "b", "c", "d", "e")
		item, err := c.register(t, cc, f, item)
		require.NoError(t, err)
		require.Equal(t, []string{c.ID(), front.ID(), member.ID()}, pathIDs(item))

		// A long path of former days, with tokens that nobody can check any more.
		for range 3 {
			c.path.PathSegments = append(c.path.PathSegments, &grpcmetadata.PathSegment{Token: "stale"})
		}
		item, err = c.register(t, cc, f, item)
		require.NoError(t, err)
		require.Len(t, pathFrom(t, member.last(t).md).PathSegments, 2)
		require.Len(t, c.path.PathSegments, 2)
		require.Equal(t, []string{c.ID(), front.ID(), member.ID()}, pathIDs(item))
	})
}

// Clients further away have longer paths: NSE, nsmgr, registry-lb.
func TestHopIsNotAlwaysTheSecond(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		world := newMesh(t)
		member := world.member(t, "registry-0", serverPolicies()...)
		front := world.front(t, proxy.Options{}, serverPolicies(), member)
		nse, manager := world.party(t, "nse"), world.client(t, "nsmgr")
		cc := manager.dial(t, front.addr)
		first, _ := nse.tokenFor(t, manager.party)
		own, _ := manager.tokenFor(t, nse)
		item := setPathIDs(f.item(hopItem), nse.ID(), manager.ID())
		var err error
		for range 2 {
			manager.path = &grpcmetadata.Path{Index: 1, PathSegments: []*grpcmetadata.PathSegment{{Token: first}, {Token: own}}}
			item, err = manager.register(t, cc, f, item)
			require.NoError(t, err)
			require.Equal(t, []string{nse.ID(), manager.ID(), front.ID(), member.ID()}, pathIDs(item))
			require.Equal(t, uint32(1), manager.path.Index)
			require.Len(t, manager.path.PathSegments, 3)
			require.Equal(t, uint32(2), pathFrom(t, member.last(t).md).Index)
		}
	})
}

func TestHopWithoutPath(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		world := newMesh(t)
		member := world.member(t, "registry-0")
		front := world.front(t, proxy.Options{}, nil, member)
		c := world.client(t, "nsmgr")
		cc := c.dial(t, front.addr)
		item := f.item(hopItem)
		for range 2 {
			resp, header := f.emptyItem(), metadata.MD{}
			require.NoError(t, cc.Invoke(within(t), f.method("Register"), item, resp, grpc.Header(&header)))
			require.Equal(t, []string{c.ID(), front.ID(), member.ID()}, pathIDs(resp), "the client is the first, not registry-lb")
			require.Empty(t, header[pathKey], "who sends no path gets none, as from a registry")
			item = resp
		}
		_, err := f.unregister(within(t), cc, item)
		require.NoError(t, err)
		require.Nil(t, member.stored(t, f))
	})
}

// The member's ID is beyond where path_ids are cut, and it is the one that routes.
func TestHopRoutesByThePathIDsOfTheClient(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		world := newMesh(t)
		members := map[string]*hopMember{"registry-0": world.member(t, "registry-0"), "registry-1": world.member(t, "registry-1")}
		// Without a directory there is nothing else to go by.
		front := world.front(t, proxy.Options{ListingInterval: -1}, nil, members["registry-0"], members["registry-1"])
		front.identified(t)
		c := world.client(t, "nsmgr")
		cc := c.dial(t, front.addr)
		for i := range 8 {
			name := fmt.Sprintf("item-%d", i)
			route, ok := front.Locate(f.key(name))
			require.True(t, ok)
			holder := members["registry-0"]
			if route.Member == holder.Name {
				holder = members["registry-1"]
			}
			before := holder.count()
			item, err := c.register(t, cc, f, setPathIDs(f.item(name), c.ID(), front.ID(), holder.ID()))
			require.NoError(t, err)
			require.Equal(t, []string{c.ID(), front.ID(), holder.ID()}, pathIDs(item))
			require.NoError(t, c.unregister(t, cc, f, item))
			require.Equal(t, before+2, holder.count())
			require.Len(t, pathIDs(holder.last(t).request), 2)
		}
	})
}

// Who inserts registry-lb into a running mesh, or takes it out, loses no NSE: all calls of a life go one way or the
// other.
func TestHopComesAndGoes(t *testing.T) {
	t.Parallel()
	const direct, through = false, true
	for _, row := range []struct {
		name string
		ways []bool // of Register, two refreshes, and Unregister
	}{
		{"inserted after the first Register", []bool{direct, through, through, through}},
		{"inserted, and taken out again", []bool{direct, through, direct, direct}},
		{"inserted, and taken out before the end", []bool{direct, through, through, direct}},
		{"inserted before the end", []bool{direct, direct, direct, through}},
		{"taken out after the first Register", []bool{through, direct, direct, direct}},
		{"taken out, and inserted again", []bool{through, direct, through, through}},
		{"taken out, and inserted before the end", []bool{through, direct, direct, through}},
		{"taken out before the end", []bool{through, through, through, direct}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			eachFlavour(t, func(t *testing.T, f flavour) {
				t.Helper()
				world := newMesh(t)
				member := world.member(t, "registry-0", serverPolicies()...)
				front := world.front(t, proxy.Options{}, serverPolicies(), member)
				front.identified(t)
				c := world.client(t, "nsmgr")
				conns := map[bool]*grpc.ClientConn{direct: c.dial(t, member.Addrs[0]), through: c.dial(t, front.addr)}
				item := f.item(hopItem)
				var err error
				for i, way := range row.ways[:3] {
					item, err = c.register(t, conns[way], f, item)
					require.NoError(t, err, "Register %d", i)
					ids := pathIDs(item)
					require.Equal(t, c.ID(), ids[0], "the owner is lost")
					require.Equal(t, member.ID(), ids[len(ids)-1], "the holder is lost")
					require.Equal(t, ids, pathIDs(member.stored(t, f)))
				}
				require.NoError(t, c.unregister(t, conns[row.ways[3]], f, item))
				require.Nil(t, member.stored(t, f))
			})
		})
	}
}

// The SDK's own client chain, with the policies that clients have for NSEs: they check the path that comes back. With
// policies for NSs that chain can't unregister, at a registry itself neither.
func TestHopServesTheSDKsClients(t *testing.T) {
	t.Parallel()
	world := newMesh(t)
	members := []*hopMember{world.member(t, "registry-0", serverPolicies()...), world.member(t, "registry-1", serverPolicies()...)}
	front := world.front(t, proxy.Options{Store: proxy.PartitionedStore}, serverPolicies(), members...)
	front.identified(t)
	c := world.party(t, "nse")
	policies := []string{"etc/nsm/opa/common/.*.rego", "etc/nsm/opa/registry/.*.rego", "etc/nsm/opa/client/.*.rego"}
	ctx := log.WithLog(t.Context(), log.Empty())
	// Each call has a deadline of its own: all of them together take long where the policies have little of a processor.
	call := func(path *grpcmetadata.Path) context.Context {
		return grpcmetadata.PathWithContext(log.WithLog(within(t), log.Empty()), path)
	}
	options := []client.Option{
		client.WithClientURL(&url.URL{Scheme: "tcp", Host: front.addr}),
		client.WithDialTimeout(patience),
		client.WithAuthorizeNSERegistryClient(sdkauthorize.NewNetworkServiceEndpointRegistryClient(sdkauthorize.WithPolicies(policies...))),
		client.WithDialOptions(
			grpc.WithTransportCredentials(identity.ClientCredentials(c, nil)),
			grpc.WithPerRPCCredentials(token.NewPerRPCCredentials(c.sign)),
		),
	}
	nses := client.NewNetworkServiceEndpointRegistryClient(ctx, options...)
	nss := client.NewNetworkServiceRegistryClient(ctx, options...)
	ns, err := nss.Register(call(new(grpcmetadata.Path)), &registry.NetworkService{Name: "ns"})
	require.NoError(t, err)
	for i := range 4 {
		path := new(grpcmetadata.Path)
		nse, err := nses.Register(call(path), &registry.NetworkServiceEndpoint{Name: fmt.Sprintf("nse-%d", i), NetworkServiceNames: []string{"ns"}})
		require.NoError(t, err)
		nse, err = nses.Register(call(path), nse)
		require.NoError(t, err)
		stream, err := nses.Find(call(path), &registry.NetworkServiceEndpointQuery{NetworkServiceEndpoint: &registry.NetworkServiceEndpoint{Name: nse.GetName()}})
		require.NoError(t, err)
		require.Len(t, registry.ReadNetworkServiceEndpointList(stream), 1)
		_, err = nses.Unregister(call(path), nse)
		require.NoError(t, err)
	}
	_, err = nss.Unregister(call(new(grpcmetadata.Path)), ns)
	require.NoError(t, err)
}
