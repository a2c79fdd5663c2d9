// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"
	"k8s.io/utils/clock"

	"github.com/networkservicemesh/registry-lb/internal/identity"
)

// BenchmarkHandshake is a whole connection with mutual TLS: TCP, both sides' handshakes in one process, a byte, the end.
// The server's own share is about a half.
func BenchmarkHandshake(b *testing.B) {
	own := newAuthority(b, "k8s.nsm")
	a := startAgent(b, issue(b, own, lbPath, time.Hour), own)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		b.Run(tls.VersionName(version), func(b *testing.B) {
			config := tlsconfig.MTLSClientConfig(workload(b, own, clientPath), a.source, tlsconfig.AuthorizeAny())
			config.MinVersion, config.MaxVersion = version, version
			server, client := identity.Bind(a.source, identity.ServerCredentials), credentials.NewTLS(config)
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, handshake(b, server, client).client)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "handshakes/s")
		})
	}
}

// BenchmarkToken is the token for a member, signed at each call and reused.
func BenchmarkToken(b *testing.B) {
	own := newAuthority(b, "k8s.nsm")
	a := startAgent(b, issue(b, own, lbPath, time.Hour), own)
	svid, err := a.source.GetX509SVID()
	require.NoError(b, err)
	info := &identity.AuthInfo{SVID: svid, TLSInfo: credentials.TLSInfo{
		State: tls.ConnectionState{PeerCertificates: issue(b, own, memberPath, time.Hour).Certificates},
	}}
	generate := identity.Tokens(a.source, 10*time.Minute, clock.RealClock{})
	b.Run("signed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, err := generate(info)
			require.NoError(b, err)
		}
	})
	b.Run("reused", func(b *testing.B) {
		reused := identity.Reuse(generate, clock.RealClock{})
		b.ReportAllocs()
		for b.Loop() {
			_, _, err := reused(info)
			require.NoError(b, err)
		}
	})
}
