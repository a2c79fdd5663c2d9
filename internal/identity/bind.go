// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/x509"
	"net"
	"sync/atomic"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"google.golang.org/grpc/credentials"
)

// AuthInfo is what the handshake of a bound connection told (see [Bind]): what TLS knows about the peer, and as whom
// registry-lb showed itself. There is one for each connection.
type AuthInfo struct {
	credentials.TLSInfo
	// SVID is the own one, which the peer was shown.
	SVID *x509svid.SVID

	// last is the token that was signed last on this connection; see Reuse.
	last atomic.Pointer[signed]
}

// TLS is what TLS knows about the peer.
func (a *AuthInfo) TLS() credentials.TLSInfo { return a.TLSInfo }

// Certificate is the leaf that the peer presented, on a bound connection or on another one with TLS; nil if none.
func Certificate(info credentials.AuthInfo) *x509.Certificate {
	if bound, ok := info.(*AuthInfo); ok {
		info = bound.TLSInfo
	}
	if tls, ok := info.(credentials.TLSInfo); ok && len(tls.State.PeerCertificates) > 0 {
		return tls.State.PeerCertificates[0]
	}
	return nil
}

// Bind returns credentials that make each handshake with one SVID and note which, in an [AuthInfo].
//
// NSM checks a token with the certificate that its TLS peer has shown (prev_token_signed.rego, next_token_signed.rego),
// and a connection lives longer than the SVID that was current when it was opened. So what is signed for a connection
// has to be signed with the connection's own SVID, whichever is the current one by then. Bundles are always the current
// ones.
//
// secure makes the credentials of one SVID; it is [ServerCredentials] or a call of [ClientCredentials].
func Bind(s SVIDs, secure func(SVIDs) credentials.TransportCredentials) credentials.TransportCredentials {
	return &binder{source: s, secure: secure}
}

type binder struct {
	source SVIDs
	secure func(SVIDs) credentials.TransportCredentials
	// current are the credentials of the SVID that was current last.
	current atomic.Pointer[pinned]
}

// pinned is one SVID, with the source's bundles.
type pinned struct {
	x509bundle.Source
	svid  *x509svid.SVID
	creds credentials.TransportCredentials
}

// GetX509SVID implements x509svid.Source.
func (p *pinned) GetX509SVID() (*x509svid.SVID, error) { return p.svid, nil }

// pin returns the credentials of the SVID that is current now.
func (b *binder) pin() (*pinned, error) {
	svid, err := b.source.GetX509SVID()
	if err != nil {
		return nil, err
	}
	if p := b.current.Load(); p != nil && p.svid == svid {
		return p, nil
	}
	p := &pinned{Source: b.source, svid: svid}
	p.creds = b.secure(p)
	b.current.Store(p)
	return p, nil
}

// bind adds to what a handshake told with which SVID it was made.
func (p *pinned) bind(conn net.Conn, info credentials.AuthInfo, err error) (net.Conn, credentials.AuthInfo, error) {
	if tls, ok := info.(credentials.TLSInfo); ok && err == nil {
		return conn, &AuthInfo{TLSInfo: tls, SVID: p.svid}, nil
	}
	return conn, info, err
}

// ClientHandshake implements credentials.TransportCredentials.
func (b *binder) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	p, err := b.pin()
	if err != nil {
		return nil, nil, err
	}
	return p.bind(p.creds.ClientHandshake(ctx, authority, raw))
}

// ServerHandshake implements credentials.TransportCredentials.
func (b *binder) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	p, err := b.pin()
	if err != nil {
		return nil, nil, err
	}
	return p.bind(p.creds.ServerHandshake(raw))
}

// Info implements credentials.TransportCredentials.
func (b *binder) Info() credentials.ProtocolInfo { return credentials.NewTLS(nil).Info() }

// Clone implements credentials.TransportCredentials.
func (b *binder) Clone() credentials.TransportCredentials { return Bind(b.source, b.secure) }

// OverrideServerName implements credentials.TransportCredentials. A SPIFFE ID is what a peer is known by, never the name
// of a server.
func (b *binder) OverrideServerName(string) error { return nil }
