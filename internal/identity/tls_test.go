// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/internal/identity"
	"github.com/networkservicemesh/registry-lb/internal/identity/workloadtest"
)

func TestIdentityOfTheOtherSide(t *testing.T) {
	t.Parallel()
	own, friend, foreign := newAuthority(t, "k8s.nsm"), newAuthority(t, "friend.nsm"), newAuthority(t, "foreign.nsm")
	// Who has taken the name of our domain has not got its key.
	forged := newAuthority(t, "k8s.nsm")
	a := startAgent(t, issue(t, own, lbPath, time.Hour), own, friend)
	now := time.Now()
	between := func(d *workloadtest.Authority, from, to time.Duration) *x509svid.SVID {
		svid, err := d.IssueFor(memberPath, now.Add(from), now.Add(to))
		require.NoError(t, err)
		return svid
	}
	for _, row := range []struct {
		name    string
		svid    *x509svid.SVID
		refused string // why; empty: it is not
	}{
		{"in the own trust domain", between(own, -time.Hour, time.Hour), ""},
		{"in a federated trust domain", between(friend, -time.Hour, time.Hour), ""},
		{"in a foreign trust domain", between(foreign, -time.Hour, time.Hour), "foreign.nsm"},
		{"forged", between(forged, -time.Hour, time.Hour), "unknown authority"},
		{"expired", between(own, -time.Hour, -time.Minute), "expired or is not yet valid"},
		{"not yet valid", between(own, time.Hour, 2*time.Hour), "expired or is not yet valid"},
	} {
		other := workloadtest.NewWorkload(row.svid, own, friend, foreign, forged)
		t.Run("a client "+row.name, func(t *testing.T) {
			t.Parallel()
			// One that does not mind its own certificate.
			o := handshake(t, identity.ServerCredentials(a.source), credentials.NewTLS(
				tlsconfig.MTLSClientConfig(other, a.source, tlsconfig.AuthorizeAny())))
			if row.refused == "" {
				require.NoError(t, o.server)
				require.NoError(t, o.client)
				return
			}
			require.ErrorContains(t, o.server, row.refused)
			require.Error(t, o.client)
		})
		t.Run("a member "+row.name, func(t *testing.T) {
			t.Parallel()
			o := handshake(t, credentials.NewTLS(tlsconfig.MTLSServerConfig(other, a.source, tlsconfig.AuthorizeAny())),
				identity.ClientCredentials(a.source, nil))
			if row.refused == "" {
				require.NoError(t, o.server)
				require.NoError(t, o.client)
				return
			}
			require.ErrorContains(t, o.client, row.refused)
		})
	}
}

func TestIdentityIsAskedFor(t *testing.T) {
	t.Parallel()
	own := newAuthority(t, "k8s.nsm")
	a := startAgent(t, issue(t, own, lbPath, time.Hour), own)

	o := handshake(t, identity.ServerCredentials(a.source),
		credentials.NewTLS(tlsconfig.TLSClientConfig(a.source, tlsconfig.AuthorizeAny())))
	require.ErrorContains(t, o.server, "client didn't provide a certificate")
	require.Error(t, o.client)

	// A member that asks for no certificate is told who calls all the same: nothing is lost by that. One without a
	// certificate of a workload is not talked to.
	web := &tls.Config{Certificates: []tls.Certificate{{
		Certificate: [][]byte{withoutID(t)},
		PrivateKey:  issue(t, own, memberPath, time.Hour).PrivateKey,
	}}, MinVersion: tls.VersionTLS12}
	o = handshake(t, credentials.NewTLS(web), identity.ClientCredentials(a.source, nil))
	require.Error(t, o.client)
}

// withoutID returns a certificate that is no SVID.
func withoutID(tb testing.TB) []byte {
	tb.Helper()
	return newAuthority(tb, "example.org").Bundle().X509Authorities()[0].Raw
}

func TestIdentityTLSVersions(t *testing.T) {
	t.Parallel()
	own := newAuthority(t, "k8s.nsm")
	a := startAgent(t, issue(t, own, lbPath, time.Hour), own)
	other := workload(t, own, memberPath)
	for _, row := range []struct {
		version uint16
		taken   bool
	}{
		{tls.VersionTLS10, false},
		{tls.VersionTLS11, false},
		{tls.VersionTLS12, true},
		{tls.VersionTLS13, true},
	} {
		only := func(config *tls.Config) credentials.TransportCredentials {
			config.MinVersion, config.MaxVersion = row.version, row.version
			// Not by mistake because of ciphers that Go no longer offers by itself.
			config.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
			return credentials.NewTLS(config)
		}
		t.Run("a client with "+tls.VersionName(row.version), func(t *testing.T) {
			t.Parallel()
			o := handshake(t, identity.ServerCredentials(a.source), only(tlsconfig.MTLSClientConfig(other, a.source, tlsconfig.AuthorizeAny())))
			requireTaken(t, row.taken, o.server, "version")
		})
		t.Run("a member with "+tls.VersionName(row.version), func(t *testing.T) {
			t.Parallel()
			o := handshake(t, only(tlsconfig.MTLSServerConfig(other, a.source, tlsconfig.AuthorizeAny())), identity.ClientCredentials(a.source, nil))
			requireTaken(t, row.taken, o.client, "version")
		})
	}
}

func requireTaken(tb testing.TB, taken bool, err error, why string) {
	tb.Helper()
	if taken {
		require.NoError(tb, err)
	} else {
		require.ErrorContains(tb, err, why)
	}
}

// A session that is resumed is not verified again: a client whose SVID expired meanwhile, or whose domain is trusted no
// more, would still get in.
func TestIdentityIsVerifiedAtEachConnection(t *testing.T) {
	t.Parallel()
	own := newAuthority(t, "k8s.nsm")
	a := startAgent(t, issue(t, own, lbPath, time.Hour), own)
	resuming := func(server credentials.TransportCredentials, version uint16) bool {
		config := tlsconfig.MTLSClientConfig(workload(t, own, clientPath), a.source, tlsconfig.AuthorizeAny())
		config.ClientSessionCache = tls.NewLRUClientSessionCache(8)
		config.MinVersion, config.MaxVersion = version, version
		client := credentials.NewTLS(config)
		resumed := false
		for range 3 {
			o := handshake(t, server, client)
			require.NoError(t, o.client)
			require.Equal(t, version, o.seen.Version)
			resumed = resumed || o.seen.DidResume
		}
		return resumed
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			t.Parallel()
			require.True(t, resuming(credentials.NewTLS(tlsconfig.MTLSServerConfig(a.source, a.source, tlsconfig.AuthorizeAny())), version),
				"the client of this test has to be one that resumes where it may")
			require.False(t, resuming(identity.ServerCredentials(a.source), version))
		})
	}
}

// startHealth starts a gRPC server with a health service. The counter says how many calls have come.
func startHealth(tb testing.TB, creds credentials.TransportCredentials) (addr string, calls *atomic.Int64) {
	tb.Helper()
	calls = new(atomic.Int64)
	s := grpc.NewServer(grpc.Creds(creds),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			calls.Add(1)
			return handler(ctx, req)
		}))
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	tb.Cleanup(func() { s.Stop(); <-served })
	return l.Addr().String(), calls
}

func dial(tb testing.TB, addr string, creds credentials.TransportCredentials) *grpc.ClientConn {
	tb.Helper()
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(creds))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = cc.Close() })
	return cc
}

// serialOf returns the serial number of the certificate that the other side showed on a new connection.
func serialOf(tb testing.TB, addr string, creds credentials.TransportCredentials) string {
	tb.Helper()
	var p peer.Peer
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	_, err := grpc_health_v1.NewHealthClient(dial(tb, addr, creds)).Check(ctx, new(grpc_health_v1.HealthCheckRequest), grpc.Peer(&p))
	require.NoError(tb, err)
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	require.True(tb, ok)
	return info.State.PeerCertificates[0].SerialNumber.String()
}

func TestIdentityRotation(t *testing.T) {
	t.Parallel()
	const (
		lifetime  = 3 * time.Second
		rotations = 4
	)
	own := newAuthority(t, "k8s.nsm")
	svid := issue(t, own, lbPath, lifetime)
	a := startAgent(t, svid, own)
	front, _ := startHealth(t, identity.ServerCredentials(a.source))
	client := identity.ClientCredentials(workload(t, own, clientPath), nil)
	member, _ := startHealth(t, credentials.NewTLS(tlsconfig.MTLSServerConfig(workload(t, own, memberPath), a.source, tlsconfig.AuthorizeAny())))

	// A client's watch at registry-lb, and one of registry-lb at a member.
	ended := make(chan error, 2)
	for _, cc := range []*grpc.ClientConn{dial(t, front, client), dial(t, member, identity.ClientCredentials(a.source, nil))} {
		watch, err := grpc_health_v1.NewHealthClient(cc).Watch(t.Context(), new(grpc_health_v1.HealthCheckRequest))
		require.NoError(t, err)
		_, err = watch.Recv()
		require.NoError(t, err)
		go func() {
			_, err := watch.Recv()
			ended <- err
		}()
	}
	first := svid.Certificates[0]
	for range rotations {
		require.Equal(t, svid.Certificates[0].SerialNumber.String(), serialOf(t, front, client), "new connections see what is current")
		next := time.NewTimer(lifetime / 2)
		<-next.C
		svid = issue(t, own, lbPath, lifetime)
		require.NoError(t, a.Set(svid, own))
		a.has(t, svid)
		require.NoError(t, a.source.Err())
	}
	require.True(t, time.Now().After(first.NotAfter), "the watches have to outlive the SVID that they began with")
	select {
	case err := <-ended:
		require.NoError(t, err, "a watch was cut")
	default:
	}
}

func TestIdentityOfAMember(t *testing.T) {
	t.Parallel()
	own := newAuthority(t, "k8s.nsm")
	a := startAgent(t, issue(t, own, lbPath, time.Hour), own)
	for _, row := range []struct {
		name     string
		patterns []string
		taken    bool
	}{
		{"any will do", nil, true},
		{"it is the one that is expected", []string{"spiffe://k8s.nsm" + memberPath}, true},
		{"one of the patterns matches", []string{"spiffe://k8s.nsm/ns/*/pod/other", "spiffe://k8s.nsm/ns/*/pod/registry-k8s-*"}, true},
		{"its domain is expected", []string{"spiffe://k8s.nsm"}, true},
		{"a foreign pod has the address", []string{"spiffe://k8s.nsm/ns/nsm-system/pod/registry-memory-*"}, false},
		{"another domain is expected", []string{"spiffe://other.nsm"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			patterns := make([]identity.Pattern, 0, len(row.patterns))
			for _, text := range row.patterns {
				p, err := identity.ParsePattern(text)
				require.NoError(t, err)
				patterns = append(patterns, p)
			}
			addr, calls := startHealth(t, credentials.NewTLS(
				tlsconfig.MTLSServerConfig(workload(t, own, memberPath), a.source, tlsconfig.AuthorizeAny())))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := grpc_health_v1.NewHealthClient(dial(t, addr, identity.ClientCredentials(a.source, patterns))).
				Check(ctx, new(grpc_health_v1.HealthCheckRequest))
			if row.taken {
				require.NoError(t, err)
				return
			}
			require.Equal(t, codes.Unavailable, status.Code(err))
			require.ErrorContains(t, err, "is not the SPIFFE ID of a member: it matches none of ["+row.patterns[0]+"]")
			require.ErrorContains(t, err, "spiffe://k8s.nsm"+memberPath)
			require.Zero(t, calls.Load(), "it was sent a call")
		})
	}
}
