// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/e2e/internal/kubestore"
	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
)

const patience = 10 * time.Second

func start(t *testing.T, options member.Options) *member.Member {
	t.Helper()
	m, err := member.Start(options)
	require.NoError(t, err)
	t.Cleanup(m.Crash)
	return m
}

// dial returns a client of m that is the NSE's manager "nsmgr".
func dial(t *testing.T, m *member.Member) (context.Context, registry.NetworkServiceEndpointRegistryClient) {
	t.Helper()
	cc, err := grpc.NewClient(m.Addrs[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = cc.Close() })
	token, err := member.Token(member.ID("nsmgr"))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return metadata.NewOutgoingContext(ctx, token.Metadata()), registry.NewNetworkServiceEndpointRegistryClient(cc)
}

func names(t *testing.T, ctx context.Context, c registry.NetworkServiceEndpointRegistryClient) []string { //nolint:revive // t comes first in helpers
	t.Helper()
	stream, err := c.Find(ctx, &registry.NetworkServiceEndpointQuery{NetworkServiceEndpoint: new(registry.NetworkServiceEndpoint)})
	require.NoError(t, err)
	names := make([]string, 0, 8)
	for _, nse := range registry.ReadNetworkServiceEndpointList(stream) {
		names = append(names, nse.GetName())
	}
	return names
}

// eachKind runs test with replicas of both registries. Of the two that newRegistry gives, what is registered with one
// is seen at the other only if shared.
func eachKind(t *testing.T, expiry time.Duration, test func(t *testing.T, newRegistry func() member.Registry, shared bool)) {
	t.Helper()
	t.Run("registry-k8s", func(t *testing.T) {
		t.Parallel()
		store := kubestore.New(kubestore.Options{})
		test(t, func() member.Registry { return member.Kubernetes(store.Client(), expiry) }, true)
	})
	t.Run("registry-memory", func(t *testing.T) {
		t.Parallel()
		test(t, func() member.Registry { return member.Memory(expiry) }, false)
	})
}

func TestMemberIsARegistry(t *testing.T) {
	t.Parallel()
	eachKind(t, time.Minute, func(t *testing.T, newRegistry func() member.Registry, shared bool) {
		t.Helper()
		a := start(t, member.Options{Name: "registry-a", UID: "1", Registry: newRegistry()})
		b := start(t, member.Options{Name: "registry-b", UID: "1", Registry: newRegistry()})
		ctx, client := dial(t, a)
		_, other := dial(t, b)

		nse, err := client.Register(ctx, &registry.NetworkServiceEndpoint{Name: "nse"})
		require.NoError(t, err)
		require.Equal(t, []string{member.ID("nsmgr"), member.ID("registry-a")}, nse.GetPathIds(), "the replica writes itself into path_ids")
		require.NotNil(t, nse.GetExpirationTime())
		require.NotNil(t, nse.GetInitialRegistrationTime())
		require.Equal(t, []string{"nse"}, names(t, ctx, client))
		require.Equal(t, shared, len(names(t, ctx, other)) == 1)

		_, err = client.Unregister(ctx, nse)
		require.NoError(t, err)
		require.Empty(t, names(t, ctx, client))
		require.Empty(t, names(t, ctx, other))
	})
}

func TestWhatIsNotRefreshedExpires(t *testing.T) {
	t.Parallel()
	eachKind(t, 50*time.Millisecond, func(t *testing.T, newRegistry func() member.Registry, _ bool) {
		t.Helper()
		m := start(t, member.Options{Name: "registry", UID: "1", Registry: newRegistry()})
		ctx, client := dial(t, m)
		// The expiry timer fires earlier by as long as the caller would have waited, so this call has no deadline.
		_, err := client.Register(context.WithoutCancel(ctx), &registry.NetworkServiceEndpoint{Name: "nse"})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return len(names(t, ctx, client)) == 0 }, patience, time.Millisecond)
	})
}

func TestEndOfAMember(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*member.Member){
		"in good order": (*member.Member).Stop,
		"by a crash":    (*member.Member).Crash,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachKind(t, time.Minute, func(t *testing.T, newRegistry func() member.Registry, shared bool) {
				t.Helper()
				m := start(t, member.Options{Name: "registry", UID: "1", Registry: newRegistry()})
				ctx, client := dial(t, m)
				_, err := client.Register(ctx, &registry.NetworkServiceEndpoint{Name: "nse"})
				require.NoError(t, err)
				watch, err := client.Find(ctx, &registry.NetworkServiceEndpointQuery{NetworkServiceEndpoint: new(registry.NetworkServiceEndpoint), Watch: true})
				require.NoError(t, err)
				_, err = watch.Recv()
				require.NoError(t, err)

				end(m)
				_, err = watch.Recv()
				require.Error(t, err, "watches end with their member")
				_, err = client.Register(ctx, &registry.NetworkServiceEndpoint{Name: "nse"})
				require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)

				again := start(t, member.Options{Name: "registry", UID: "2", Registry: newRegistry()})
				require.NotEqual(t, m.Life(), again.Life())
				_, client = dial(t, again)
				require.Equal(t, shared, len(names(t, ctx, client)) == 1, "memory is gone, a shared store is not")
			})
		})
	}
}

func TestRecorder(t *testing.T) {
	t.Parallel()
	recorder := member.NewRecorder()
	a := start(t, member.Options{Name: "registry-a", UID: "1", Registry: member.Memory(time.Minute), Recorder: recorder})
	b := start(t, member.Options{Name: "registry-b", UID: "7", Registry: member.Memory(time.Minute), Recorder: recorder})
	ctx, ofA := dial(t, a)
	_, ofB := dial(t, b)

	nse, err := ofA.Register(member.Mark(ctx, "first"), &registry.NetworkServiceEndpoint{Name: "nse"})
	require.NoError(t, err)
	_, err = ofB.Unregister(member.Mark(ctx, "second"), nse)
	require.NoError(t, err)
	names(t, member.Mark(ctx, "second"), ofA)
	names(t, ctx, ofB) // not marked

	require.Equal(t, []member.Life{a.Life()}, recorder.Take("first"))
	require.Equal(t, []member.Life{b.Life(), a.Life()}, recorder.Take("second"))
	require.Empty(t, recorder.Take("second"), "what is taken is forgotten")
	require.Empty(t, recorder.Take(""))
}
