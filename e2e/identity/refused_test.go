// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
	"github.com/networkservicemesh/registry-lb/internal/identity/workloadtest"
)

// TestIdentityConnectionsThatAreRefused connects as who is nobody of this mesh, to a registry-k8s and to registry-lb: the
// same code, nothing stored, and one line in registry-lb's log that says why.
func TestIdentityConnectionsThatAreRefused(t *testing.T) {
	w := newWorld(t, 1)
	lb := w.startBalancer(t)
	lb.live(t, 1)
	foreign, err := workloadtest.NewAuthority("foreign.nsm")
	require.NoError(t, err)
	// Who has taken the name of the domain has not got its key.
	forged, err := workloadtest.NewAuthority("k8s.nsm")
	require.NoError(t, err)
	as := func(a *workloadtest.Authority, from, to time.Duration) credentials.TransportCredentials {
		svid, err := a.IssueFor("/ns/"+member.Namespace+"/pod/nsmgr", time.Now().Add(from), time.Now().Add(to))
		require.NoError(t, err)
		return credentials.NewTLS(tlsconfig.MTLSClientConfig(workloadtest.NewWorkload(svid), w.party(t, "nsmgr"), tlsconfig.AuthorizeAny()))
	}
	for _, row := range []struct {
		name  string
		creds credentials.TransportCredentials
		why   string // in the log
	}{
		{"without TLS", insecure.NewCredentials(), "first record does not look like a TLS handshake"},
		{"without a certificate", credentials.NewTLS(tlsconfig.TLSClientConfig(w.party(t, "nsmgr"), tlsconfig.AuthorizeAny())), "didn't provide a certificate"},
		{"of a foreign trust domain", as(foreign, -time.Hour, time.Hour), "foreign.nsm"},
		{"with a forged SVID", as(forged, -time.Hour, time.Hour), "unknown authority"},
		{"with an expired SVID", as(w.authority, -time.Hour, -time.Minute), "expired or is not yet valid"},
		{"with an SVID that is not yet valid", as(w.authority, time.Hour, 2*time.Hour), "expired or is not yet valid"},
	} {
		lb.logs.TakeAll()
		for _, target := range []string{w.replicas[0].addr, lb.target} {
			cc, err := grpc.NewClient(target, grpc.WithTransportCredentials(row.creds))
			require.NoError(t, err)
			ctx := metadata.NewOutgoingContext(within(t), headers("", "{}"))
			_, err = registry.NewNetworkServiceEndpointRegistryClient(cc).Register(ctx, &registry.NetworkServiceEndpoint{Name: "nse"})
			require.NoError(t, cc.Close())
			require.Equal(t, codes.Unavailable, status.Code(err), "%s, at %s: %v", row.name, target, err)
		}
		require.Zero(t, w.stored(t), row.name)
		require.Eventually(t, func() bool { return lb.logs.FilterMessage("a connection was refused").Len() > 0 }, patience, tick, row.name)
		lines := lb.logs.FilterMessage("a connection was refused").All()
		require.Len(t, lines, 1, row.name)
		require.Contains(t, lines[0].ContextMap()["error"], row.why, row.name)
	}
	require.NotNil(t, w.client(t, "nsmgr").mustRegister(t, lb.target, "nse"))
}
