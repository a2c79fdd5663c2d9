// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/networkservicemesh/api/pkg/api/registry"
	sdkregistry "github.com/networkservicemesh/sdk/pkg/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/networkservicemesh/sdk/pkg/registry/common/memory"
	"github.com/networkservicemesh/sdk/pkg/registry/common/updatepath"
	"github.com/networkservicemesh/sdk/pkg/registry/core/chain"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// introduced waits until the SPIFFE ID of a member is known.
func (f *front) introduced(tb testing.TB, member, id string) {
	tb.Helper()
	require.Eventually(tb, func() bool { return f.member(member).SpiffeID == id }, patience, tick, "%s is %s", member, id)
}

// TestRegisterResponsesIntroduceToo has members that do not say who they are when they are asked.
func TestRegisterResponsesIntroduceToo(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		r := startReplicas(t, proxy.SharedStore, "a", "b")
		for _, m := range r.byName {
			m.setOwn(introduction, obliging)
		}
		front := startFront(t, following(proxy.SharedStore), r.describe()...)
		r.has(f, "b", "before")
		front.ready(t)
		require.Empty(t, front.member("b").SpiffeID)
		require.Equal(t, shard.ReasonRing, front.routeOf(t, f, "before").Reason)

		_, err := f.register(within(t), front.cc, f.item(front.nameAt(t, f, "b", "own")))
		require.NoError(t, err)
		front.introduced(t, "b", idOf("b"))
		front.knows(t, f, "before", "b") // listed again
	})
}

// TestMemberThatNeverSaysWhoItIs does not keep the balancer from being ready.
func TestMemberThatNeverSaysWhoItIs(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]script{
		"it answers without a path": obliging,
		"it refuses to answer":      func(*call) error { return detailed(7) },
		"its path makes no sense": func(c *call) error {
			_ = c.SetHeader(metadata.Pairs("path", "?"))
			return c.SendMsg(new(emptypb.Empty))
		},
		"it hangs": (*call).untilDone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := nseFlavour()
			r := startReplicas(t, proxy.SharedStore, "a", "b")
			r.byName["a"].setOwn(introduction, answer)
			options := following(proxy.SharedStore)
			options.ProbeTimeout = hangTimeout
			front := startFront(t, options, r.describe()...)
			front.ready(t)
			require.Empty(t, front.member("a").SpiffeID)
			front.introduced(t, "b", idOf("b"))
			front.eachMethod(t, f, namesOf("name", 10), true)
			require.Empty(t, r.misplaced())
		})
	}
}

// TestSuspectThatIntroducesItself says who it is in the moment in which it comes back.
func TestSuspectThatIntroducesItself(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	r := startReplicas(t, proxy.SharedStore, "a", "b")
	b := r.byName["b"]
	b.setOwn(probes, says(notServing))
	front := startFront(t, following(proxy.SharedStore), r.describe()...)
	front.becomes(t, "b", proxy.StateSuspect)
	front.ready(t)
	r.has(f, "b", "before")
	front.caughtUp(t, f, r, "a")
	b.setOwn(probes, says(serving))
	front.becomes(t, "b", proxy.StateLive)
	front.introduced(t, "b", idOf("b"))
	r.has(f, "b", "after")
	front.knows(t, f, "after", "b")
	front.knows(t, f, "before", "b")
}

// TestNewLifeIsAnotherOne has a pod whose name stays and whose SPIFFE ID does not.
func TestNewLifeIsAnotherOne(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	r := startReplicas(t, proxy.SharedStore, "a", "b")
	front := startFront(t, following(proxy.SharedStore), r.describe()...)
	front.introduced(t, "b", idOf("b"))
	reborn := r.start(t, "b", idOf("another"))
	reborn.UID = "another"
	front.SetMembers(r.describe())
	front.introduced(t, "b", idOf("another"))
	front.ready(t)
	r.has(f, "b", "name")
	front.knows(t, f, "name", "b")
}

func TestDuplicateIDsAreReported(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	r := startReplicas(t, proxy.SharedStore)
	const same = "spiffe://test/ns/nsm-system/sa/registry"
	r.start(t, "a", same)
	r.start(t, "b", same)
	r.start(t, "c", idOf("c"))
	r.has(f, "a", "of-a")
	r.has(f, "c", "of-c")
	logs, seen := observer.New(zap.WarnLevel)
	metrics := prometheus.NewPedanticRegistry()
	options := following(proxy.SharedStore)
	options.Log, options.Registerer = zap.New(logs), metrics
	front := startFront(t, options, r.describe()...)
	front.ready(t)
	front.introduced(t, "a", same)
	front.introduced(t, "b", same)
	require.Equal(t, map[string][]string{same: {"a", "b"}}, front.Status().DuplicateIDs)
	duplicates := func() float64 { return value(t, metrics, "registry_lb_duplicate_member_ids", nil) }
	require.InDelta(t, 1, duplicates(), 0)
	lines := seen.FilterMessageSnippet("several members have one SPIFFE ID").All()
	require.NotEmpty(t, lines)
	require.Equal(t, map[string]any{"spiffe_id": same, "members": []any{"a", "b"}}, lines[0].ContextMap())

	// Who has an ID of its own is still found by it; of the others own traffic tells, and the ring.
	front.knows(t, f, "of-c", "c")
	require.Equal(t, shard.ReasonRing, front.routeOf(t, f, "of-a").Reason)
	names := namesOf("name", 30)
	front.eachMethod(t, f, names, false)
	require.Positive(t, r.held()["a"])
	r.start(t, "d", idOf("d"))
	front.SetMembers(r.describe())
	front.eachMethod(t, f, names, true)
	require.Empty(t, r.misplaced())

	front.SetMembers(r.describe("a", "c", "d"))
	require.Empty(t, front.Status().DuplicateIDs)
	require.Zero(t, duplicates())
}

// tokensWithID signs the tokens of a registry with this SPIFFE ID.
func tokensWithID(id string) token.GeneratorFunc {
	return func(credentials.AuthInfo) (string, time.Time, error) {
		expires := time.Now().Add(time.Hour)
		claims := jwt.RegisteredClaims{Subject: id, ExpiresAt: jwt.NewNumericDate(expires)}
		text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("secret"))
		return text, expires, err
	}
}

// startSDK starts a registry of the SDK's elements in front of a store, as registry-k8s is one in front of its own.
func startSDK(tb testing.TB, name string, nses registry.NetworkServiceEndpointRegistryServer, nss registry.NetworkServiceRegistryServer) shard.Member {
	tb.Helper()
	tokens := tokensWithID(idOf(name))
	server := sdkregistry.NewServer(
		chain.NewNetworkServiceRegistryServer(
			grpcmetadata.NewNetworkServiceRegistryServer(),
			updatepath.NewNetworkServiceRegistryServer(tokens),
			nss,
		),
		chain.NewNetworkServiceEndpointRegistryServer(
			grpcmetadata.NewNetworkServiceEndpointRegistryServer(),
			updatepath.NewNetworkServiceEndpointRegistryServer(tokens),
			nses,
		),
	)
	s := grpc.NewServer()
	server.Register(s)
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	go func() { _ = s.Serve(l) }()
	tb.Cleanup(s.Stop)
	return shard.Member{Name: name, UID: name, Addrs: []string{l.Addr().String()}}
}

// TestRestartWithTheSDKsRegistries is TestRestartKeepsKeysWhereTheyAre with registries that are not made for it: they
// say who they are, write it into what they store, and give it back.
func TestRestartWithTheSDKsRegistries(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, kind proxy.Store) {
		t.Helper()
		nses, nss := memory.NewNetworkServiceEndpointRegistryServer(), memory.NewNetworkServiceRegistryServer()
		members := make([]shard.Member, 0, 4)
		for i := range cap(members) {
			if kind == proxy.PartitionedStore {
				nses, nss = memory.NewNetworkServiceEndpointRegistryServer(), memory.NewNetworkServiceRegistryServer()
			}
			members = append(members, startSDK(t, fmt.Sprint("registry-", i), nses, nss))
		}
		before := startFront(t, following(kind), members[:2]...)
		before.ready(t)
		holders := make(map[shard.Key]string)
		names := namesOf("name", 40)
		for _, f := range []flavour{nseFlavour(), nsFlavour()} {
			before.eachMethod(t, f, names, false)
			for _, name := range names {
				holders[f.key(name)] = before.holder(t, f.key(name))
			}
		}
		before.stop()
		after := startFront(t, following(kind), members...)
		after.ready(t)
		for _, m := range members {
			after.introduced(t, m.Name, idOf(m.Name))
		}
		for _, f := range []flavour{nseFlavour(), nsFlavour()} {
			for _, name := range names {
				after.knows(t, f, name, holders[f.key(name)])
			}
			after.eachMethod(t, f, names, true)
			for _, name := range names {
				after.forgets(t, f, name)
			}
		}
	})
}
