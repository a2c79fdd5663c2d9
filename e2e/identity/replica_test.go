// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/networkservicemesh/sdk-k8s/pkg/registry/chains/registryk8s"
	"github.com/networkservicemesh/sdk/pkg/registry/common/authorize"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
	"github.com/networkservicemesh/registry-lb/internal/identity"
)

// replica is a registry-k8s with the policies and the TLS that it has by default.
type replica struct {
	party
	addr string
	// crash ends it as a lost process ends.
	crash func()
}

func (w *world) startReplica(t *testing.T, name string) *replica {
	t.Helper()
	policies := []string{"etc/nsm/opa/common/.*.rego", "etc/nsm/opa/registry/.*.rego", "etc/nsm/opa/server/.*.rego"}
	ctx, cancel := context.WithCancel(log.WithLog(context.Background(), log.Empty()))
	r := &replica{party: w.party(t, name)}
	s := grpc.NewServer(grpc.Creds(identity.ServerCredentials(r)),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			return handler(log.WithLog(ctx, log.Empty()), req)
		}))
	registryk8s.NewServer(
		&registryk8s.Config{Namespace: member.Namespace, ExpirePeriod: expiry, ChainCtx: ctx, ClientSet: w.store.Client()},
		r.sign,
		registryk8s.WithAuthorizeNSERegistryServer(authorize.NewNetworkServiceEndpointRegistryServer(authorize.WithPolicies(policies...))),
		registryk8s.WithAuthorizeNSRegistryServer(authorize.NewNetworkServiceRegistryServer(authorize.WithPolicies(policies...))),
	).Register(s)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.addr = l.Addr().String()
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	r.crash = sync.OnceFunc(func() { cancel(); s.Stop(); <-served })
	t.Cleanup(r.crash)
	return r
}
