// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edwarnicke/genericsync"
	"github.com/golang-jwt/jwt/v4"
	"github.com/golang/protobuf/ptypes/empty"
	"github.com/networkservicemesh/api/pkg/api/registry"
	sdkauthorize "github.com/networkservicemesh/sdk/pkg/registry/common/authorize"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/networkservicemesh/sdk/pkg/registry/common/updatepath"
	"github.com/networkservicemesh/sdk/pkg/registry/core/adapters"
	"github.com/networkservicemesh/sdk/pkg/registry/core/next"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"github.com/networkservicemesh/registry-lb/internal/identity"
	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// answering is a member that takes all calls and says about the path what it is told to.
type answering struct {
	registry.UnimplementedNetworkServiceEndpointRegistryServer
	party
	// tell returns the path that goes back, given the one that a good member would send; nil: none.
	tell         atomic.Pointer[func(good *grpcmetadata.Path) *string]
	unregistered atomic.Int64
}

func (m *answering) answer(ctx context.Context) {
	path := new(grpcmetadata.Path)
	_ = json.Unmarshal([]byte(metadata.ValueFromIncomingContext(ctx, pathKey)[0]), path)
	if int(path.Index) >= len(path.PathSegments) {
		return // the SDK's hop has believed the path that it was told, and undoes the call with it
	}
	from, _ := peer.FromContext(ctx)
	tok, _, _ := m.sign(from.AuthInfo)
	path.PathSegments[path.Index].Token = metadata.ValueFromIncomingContext(ctx, clientToken)[0]
	path.PathSegments = append(path.PathSegments[:path.Index+1], &grpcmetadata.PathSegment{Token: tok})
	if text := (*m.tell.Load())(path); text != nil {
		_ = grpc.SetHeader(ctx, metadata.Pairs(pathKey, *text))
	}
}

func (m *answering) Register(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*registry.NetworkServiceEndpoint, error) {
	m.answer(ctx)
	return nse, nil
}

func (m *answering) Unregister(ctx context.Context, _ *registry.NetworkServiceEndpoint) (*empty.Empty, error) {
	m.unregistered.Add(1)
	m.answer(ctx)
	return new(empty.Empty), nil
}

func (m mesh) answering(tb testing.TB, pod string) (member *answering, described shard.Member) {
	tb.Helper()
	member = &answering{party: m.party(tb, pod)}
	w := newWire(tb)
	serveHop(tb, w, identity.ServerCredentials(member.party), func(s *grpc.Server) {
		registry.RegisterNetworkServiceEndpointRegistryServer(s, member)
	})
	return member, shard.Member{Name: pod, UID: pod, Addrs: []string{w.Addr().String()}}
}

// sdkHop starts a hop made of the SDK's elements in front of one member, as nsmgr is one, and returns where. Both its
// sides know these NSEs already, with their path_ids.
func (m mesh) sdkHop(tb testing.TB, own party, member string, servers []string, known map[string][]string) string {
	tb.Helper()
	var callers, answers genericsync.Map[string, []string]
	for name, ids := range known {
		callers.Store(name, ids)
		answers.Store(name, ids)
	}
	cc, err := grpc.NewClient(member,
		grpc.WithTransportCredentials(identity.ClientCredentials(own, nil)),
		grpc.WithPerRPCCredentials(token.NewPerRPCCredentials(own.sign)))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = cc.Close() })
	hop := next.NewNetworkServiceEndpointRegistryServer(
		grpcmetadata.NewNetworkServiceEndpointRegistryServer(),
		updatepath.NewNetworkServiceEndpointRegistryServer(own.sign),
		sdkauthorize.NewNetworkServiceEndpointRegistryServer(
			sdkauthorize.WithPolicies(servers...), sdkauthorize.WithResourcePathIDsMap(&callers)),
		adapters.NetworkServiceEndpointClientToServer(next.NewNetworkServiceEndpointRegistryClient(
			sdkauthorize.NewNetworkServiceEndpointRegistryClient(
				sdkauthorize.WithPolicies(m.clientPolicies...), sdkauthorize.WithResourcePathIDsMap(&answers)),
			grpcmetadata.NewNetworkServiceEndpointRegistryClient(),
			registry.NewNetworkServiceEndpointRegistryClient(cc),
		)),
	)
	w := newWire(tb)
	serveHop(tb, w, identity.ServerCredentials(own), func(s *grpc.Server) {
		registry.RegisterNetworkServiceEndpointRegistryServer(s, hop)
	}, grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return handler(log.WithLog(ctx, log.Empty()), req)
	}))
	return w.Addr().String()
}

// textOf is the path as metadata has it.
func textOf(path *grpcmetadata.Path) *string {
	text, err := json.Marshal(path)
	if err != nil {
		panic(err) // it can always be written
	}
	result := string(text)
	return &result
}

// badAnswers are paths that a member sends back, with what the SDK's hop makes of them.
func badAnswers(tb testing.TB, member, others party) []struct {
	name string
	tell func(good *grpcmetadata.Path) *string
	code codes.Code
} {
	tb.Helper()
	claim := func(subject, audience party, signer party, expires time.Time) string {
		claims := jwt.RegisteredClaims{Subject: subject.ID(), Audience: jwt.ClaimStrings{audience.ID()}, ExpiresAt: jwt.NewNumericDate(expires)}
		tok, err := jwt.NewWithClaims(jwt.SigningMethodES256, claims).SignedString(signer.svid(tb).PrivateKey)
		require.NoError(tb, err)
		return tok
	}
	with := func(place int, tok string) func(*grpcmetadata.Path) *string {
		return func(good *grpcmetadata.Path) *string {
			good.PathSegments[place].Token = tok
			return textOf(good)
		}
	}
	text := func(s string) func(*grpcmetadata.Path) *string {
		return func(*grpcmetadata.Path) *string { return &s }
	}
	return []struct {
		name string
		tell func(good *grpcmetadata.Path) *string
		code codes.Code
	}{
		{"nothing is wrong", textOf, codes.OK},
		{"no path comes back", func(*grpcmetadata.Path) *string { return nil }, codes.PermissionDenied},
		{"the path is broken", text(`{"Index":1,`), codes.PermissionDenied},
		{"the path is empty", text("{}"), codes.PermissionDenied},
		{"the path is JSON's null", text("null"), codes.PermissionDenied},
		{"the member's segment is missing", func(good *grpcmetadata.Path) *string {
			good.PathSegments = good.PathSegments[:2]
			return textOf(good)
		}, codes.PermissionDenied},
		{"the index is another one", func(good *grpcmetadata.Path) *string {
			good.Index = 0
			return textOf(good)
		}, codes.PermissionDenied},
		{"the index is out of range", func(good *grpcmetadata.Path) *string {
			good.Index = 1<<32 - 1
			return textOf(good)
		}, codes.PermissionDenied},
		{"the member's token is signed by another", with(2, claim(member, others, others, soon())), codes.PermissionDenied},
		{"the member's token is another's", with(2, claim(others, member, others, soon())), codes.PermissionDenied},
		{"the member's token has expired", with(2, claim(member, others, member, time.Now().Add(-time.Minute))), codes.PermissionDenied},
		{"the member's token is for somebody else", with(2, claim(member, others, member, soon())), codes.OK},
		{"the member's token is no token", with(2, "a.b.c"), codes.PermissionDenied},
		{"the own token is no more", with(1, ""), codes.PermissionDenied},
		{"the own token is another's", with(1, claim(others, member, others, soon())), codes.PermissionDenied},
		{"the client's token has expired", with(0, claim(others, others, others, time.Now().Add(-time.Minute))), codes.PermissionDenied},
		{"a segment follows that is good", func(good *grpcmetadata.Path) *string {
			tok, _ := member.tokenFor(tb, others)
			good.PathSegments[2].Token = tok
			good.PathSegments = append(good.PathSegments, &grpcmetadata.PathSegment{Token: claim(others, member, others, soon())})
			return textOf(good)
		}, codes.OK},
		{"a segment follows that is not chained", func(good *grpcmetadata.Path) *string {
			good.PathSegments = append(good.PathSegments, &grpcmetadata.PathSegment{Token: claim(others, member, others, soon())})
			return textOf(good)
		}, codes.PermissionDenied},
	}
}

// What members answer is believed as far as the SDK's client element authorize believes it: the same verdict, and what was
// registered in spite of a refusal is unregistered.
func TestHopAcceptsWhatTheSDKsHopAccepts(t *testing.T) {
	t.Parallel()
	world := newMesh(t)
	others := world.party(t, "others")
	behind, described := world.answering(t, "registry-0")
	front := world.front(t, proxy.Options{ListingInterval: time.Hour}, nil)
	front.SetMembers([]shard.Member{described})
	own := front.party
	own.sign = identity.Tokens(front.party, 10*time.Minute, clock.RealClock{})
	direct, directly := world.answering(t, "registry-0")
	addrs := []string{world.sdkHop(t, own, directly.Addrs[0], nil, nil), front.addr}
	f := nseFlavour()
	for _, which := range []int{0, 1} {
		member := []*answering{direct, behind}[which]
		good := textOf
		for _, row := range badAnswers(t, member.party, others) {
			t.Run([]string{"SDK", "registry-lb"}[which]+"/"+row.name, func(t *testing.T) { //nolint:paralleltest // the member is told what to answer
				bad := row.tell
				c := world.client(t, "nsmgr")
				cc := c.dial(t, addrs[which])

				member.tell.Store(&bad)
				unregistered := member.unregistered.Load()
				_, err := c.register(t, cc, f, f.item("new "+row.name))
				require.Equal(t, row.code, status.Code(err), "Register: %v", err)
				if row.code == codes.OK {
					require.Equal(t, unregistered, member.unregistered.Load())
				} else {
					require.Equal(t, unregistered+1, member.unregistered.Load(), "a new NSE stays though its registration was refused")
				}

				// One that was there before stays.
				member.tell.Store(&good)
				c.path = new(grpcmetadata.Path)
				item, err := c.register(t, cc, f, f.item("old "+row.name))
				require.NoError(t, err)
				member.tell.Store(&bad)
				unregistered = member.unregistered.Load()
				_, err = c.register(t, cc, f, item)
				require.Equal(t, row.code, status.Code(err), "refresh: %v", err)
				require.Equal(t, unregistered, member.unregistered.Load(), "a refresh that is refused must not end the NSE")
				c.path = new(grpcmetadata.Path)
				require.Equal(t, row.code, status.Code(c.unregister(t, cc, f, item)), "Unregister")
				if which == 1 && row.code != codes.OK {
					require.Equal(t, 3, front.logs.FilterMessage("the answer of a member was refused").Len(), "each refusal has one line")
				}
				front.logs.TakeAll()
			})
		}
	}
}

// Without policies for answers none is looked at.
func TestHopAcceptsAllWithoutPolicies(t *testing.T) {
	t.Parallel()
	world := newMesh(t)
	world.clientPolicies = nil
	member, described := world.answering(t, "registry-0")
	front := world.front(t, proxy.Options{}, nil)
	front.SetMembers([]shard.Member{described})
	f := nseFlavour()
	for _, row := range badAnswers(t, member.party, world.party(t, "others")) {
		tell := row.tell
		member.tell.Store(&tell)
		c := world.client(t, "nsmgr")
		_, err := c.register(t, c.dial(t, front.addr), f, f.item("item"))
		require.NoError(t, err, row.name)
	}
	require.Zero(t, member.unregistered.Load())
}

// A member whose certificate was renewed signs with the new key, and has shown the old certificate on connections that
// are there. No call is refused for that.
func TestHopAcceptsAMemberThatHasRotated(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		s := newHopScene(t)
		world, member, front, c, cc := s.mesh, s.member, s.front, s.client, s.cc
		item, err := c.register(t, cc, f, f.item("item"))
		require.NoError(t, err)
		svid, err := world.authority.Issue("/ns/nsm-system/pod/registry-0", time.Hour)
		require.NoError(t, err)
		member.Renew(svid)
		item, err = c.register(t, cc, f, item)
		require.NoError(t, err)
		require.NoError(t, c.unregister(t, cc, f, item))
		require.Zero(t, front.logs.FilterMessage("the answer of a member was refused").Len())
	})
}

// talkative is a member that tells who watches of a registration before it answers who registers.
type talkative struct {
	answering
	told  chan *registry.NetworkServiceEndpoint
	known func(nse *registry.NetworkServiceEndpoint)
}

func (m *talkative) Register(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*registry.NetworkServiceEndpoint, error) {
	nse.PathIds = append(nse.GetPathIds(), m.ID())
	m.told <- nse.Clone()
	m.known(nse)
	return m.answering.Register(ctx, nse)
}

func (m *talkative) Find(query *registry.NetworkServiceEndpointQuery, stream registry.NetworkServiceEndpointRegistry_FindServer) error {
	if !query.GetWatch() {
		return nil
	}
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case nse := <-m.told:
			if err := stream.Send(&registry.NetworkServiceEndpointResponse{NetworkServiceEndpoint: nse}); err != nil {
				return err
			}
		}
	}
}

// The directory may hear by its watch of what a call registers before the call is answered. That makes the NSE no older.
func TestHopAcceptsByWhatWasKnownBefore(t *testing.T) {
	t.Parallel()
	world := newMesh(t)
	member := &talkative{answering: answering{party: world.party(t, "registry-0")}, told: make(chan *registry.NetworkServiceEndpoint)}
	w := newWire(t)
	serveHop(t, w, identity.ServerCredentials(member.party), func(s *grpc.Server) {
		registry.RegisterNetworkServiceEndpointRegistryServer(s, member)
	})
	front := world.front(t, proxy.Options{}, nil)
	heard := make(chan struct{}, 16)
	member.known = func(nse *registry.NetworkServiceEndpoint) {
		for ticker := time.NewTicker(tick); ; <-ticker.C {
			if route, _ := front.Locate(shard.NSEKey(nse.GetName())); route.Reason == shard.ReasonHolder {
				ticker.Stop()
				heard <- struct{}{}
				return
			}
		}
	}
	front.SetMembers([]shard.Member{{Name: "registry-0", UID: "1", Addrs: []string{w.Addr().String()}}})
	front.identified(t)
	bad := func(*grpcmetadata.Path) *string { return nil }
	member.tell.Store(&bad)
	c, f := world.client(t, "nsmgr"), nseFlavour()
	_, err := c.register(t, c.dial(t, front.addr), f, f.item("item"))
	requireCode(t, codes.PermissionDenied, err)
	require.NotEmpty(t, heard, "the directory has to have heard of it")
	require.Equal(t, int64(1), member.unregistered.Load(), "what was new stays though its registration was refused")
}
