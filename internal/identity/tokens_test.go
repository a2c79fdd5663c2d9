// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/networkservicemesh/registry-lb/internal/identity"
)

// notary signs tokens that say what they are for. It implements x509svid.Source.
type notary struct {
	clock    *testingclock.FakePassiveClock
	svid     *x509svid.SVID
	lifetime time.Duration
	err      error
	signed   map[string]signature
}

type signature struct {
	svid            *x509svid.SVID
	peer            string
	signed, expires time.Time
}

func newNotary() *notary {
	return &notary{
		clock:    testingclock.NewFakePassiveClock(time.Unix(1_700_000_000, 0)),
		svid:     new(x509svid.SVID),
		lifetime: 10 * time.Minute,
		signed:   make(map[string]signature),
	}
}

func (n *notary) GetX509SVID() (*x509svid.SVID, error) { return n.svid, n.err }

func (n *notary) generate(info credentials.AuthInfo) (string, time.Time, error) {
	if n.err != nil {
		return "", time.Time{}, n.err
	}
	s := signature{svid: n.svid, signed: n.clock.Now(), expires: n.clock.Now().Add(n.lifetime)}
	if shown, ok := info.(credentials.TLSInfo); ok && len(shown.State.PeerCertificates) > 0 {
		s.peer = string(shown.State.PeerCertificates[0].Raw)
	}
	tok := strconv.Itoa(len(n.signed))
	n.signed[tok] = s
	return tok, s.expires, nil
}

func (n *notary) wait(d time.Duration) { n.clock.SetTime(n.clock.Now().Add(d)) }

func (n *notary) reuse() token.GeneratorFunc { return identity.Reuse(n, n.generate, n.clock) }

// shown is what is known of a peer with this certificate.
func shown(cert string) credentials.AuthInfo {
	return credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte(cert)}}}}
}

func TestIdentityTokenReuse(t *testing.T) {
	t.Parallel()
	const member = "member"
	for _, row := range []struct {
		name   string
		change func(n *notary)
		info   credentials.AuthInfo
		again  bool
	}{
		{"at once", func(*notary) {}, shown(member), true},
		{"while nine tenths of its life are left", func(n *notary) { n.wait(time.Minute - time.Nanosecond) }, shown(member), true},
		{"after a tenth of its life", func(n *notary) { n.wait(time.Minute) }, shown(member), false},
		{"after its end", func(n *notary) { n.wait(time.Hour) }, shown(member), false},
		{"for another member", func(*notary) {}, shown("another"), false},
		{"for a member with a new certificate", func(*notary) {}, shown(member + ", renewed"), false},
		{"with another SVID of one's own", func(n *notary) { n.svid = new(x509svid.SVID) }, shown(member), false},
		{"for a peer without a certificate", func(*notary) {}, credentials.TLSInfo{}, false},
		{"for a peer that is not known", func(*notary) {}, nil, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			n := newNotary()
			generate := n.reuse()
			first, _, err := generate(shown(member))
			require.NoError(t, err)
			row.change(n)
			second, expires, err := generate(row.info)
			require.NoError(t, err)
			require.Equal(t, n.signed[second].expires, expires)
			require.Equal(t, row.again, first == second)
		})
	}
}

func TestIdentityTokenThatExpiredAtOnceIsNotReused(t *testing.T) {
	t.Parallel()
	n := newNotary()
	generate := n.reuse()
	for _, n.lifetime = range []time.Duration{0, -time.Minute, -time.Hour} {
		first, _, err := generate(shown("member"))
		require.NoError(t, err)
		second, _, err := generate(shown("member"))
		require.NoError(t, err)
		require.NotEqual(t, first, second)
	}
}

func TestIdentityTokenErrorsAreNotKept(t *testing.T) {
	t.Parallel()
	n := newNotary()
	generate := n.reuse()
	n.err = errors.New("no SVID")
	_, _, err := generate(shown("member"))
	require.ErrorIs(t, err, n.err)
	n.err = nil
	tok, _, err := generate(shown("member"))
	require.NoError(t, err)
	require.NotEmpty(t, tok)
}

func TestIdentityTokensKeptAreBounded(t *testing.T) {
	t.Parallel()
	n := newNotary()
	generate := n.reuse()
	first, _, err := generate(shown("first"))
	require.NoError(t, err)
	for i := range 1024 {
		_, _, err := generate(shown(strconv.Itoa(i)))
		require.NoError(t, err)
	}
	again, _, err := generate(shown("first"))
	require.NoError(t, err)
	require.NotEqual(t, first, again, "whoever makes up peers must not fill the memory")
}

// Whatever happens, a token is for its peer, by the current SVID, and has nine tenths of its life ahead.
func TestIdentityTokenProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := newNotary()
		generate := n.reuse()
		rt.Repeat(map[string]func(*rapid.T){
			"wait":   func(rt *rapid.T) { n.wait(time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(rt, "for"))) },
			"rotate": func(*rapid.T) { n.svid = new(x509svid.SVID) },
			"lifetime": func(rt *rapid.T) {
				n.lifetime = time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(rt, "lifetime"))
			},
			"sign": func(rt *rapid.T) {
				peer := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "peer")
				tok, expires, err := generate(shown(peer))
				if err != nil {
					rt.Fatal(err)
				}
				s := n.signed[tok]
				switch left, life := expires.Sub(n.clock.Now()), expires.Sub(s.signed); {
				case s.peer != peer:
					rt.Fatalf("the token is for %s, not for %s", s.peer, peer)
				case s.svid != n.svid:
					rt.Fatal("the SVID that signed it is no longer the current one")
				case !s.expires.Equal(expires):
					rt.Fatalf("it expires at %v, not at %v", s.expires, expires)
				case left < life*9/10:
					rt.Fatalf("of %v only %v are left", life, left)
				}
			},
		})
	})
}

// The tokens themselves are those of the SDK: by whom, for whom, and no longer than either certificate.
func TestIdentityTokenClaims(t *testing.T) {
	t.Parallel()
	own := newAuthority(t, "k8s.nsm")
	a := startAgent(t, issue(t, own, lbPath, time.Hour), own)
	member := issue(t, own, memberPath, 5*time.Minute)
	info := credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: member.Certificates}}
	generate := identity.Reuse(a.source, identity.Tokens(a.source, 10*time.Minute), testingclock.NewFakePassiveClock(time.Now()))

	tok, expires, err := generate(info)
	require.NoError(t, err)
	require.Equal(t, member.Certificates[0].NotAfter, expires)
	svid, err := a.source.GetX509SVID()
	require.NoError(t, err)
	var claims jwt.RegisteredClaims
	_, err = jwt.ParseWithClaims(tok, &claims, func(*jwt.Token) (any, error) { return svid.Certificates[0].PublicKey, nil })
	require.NoError(t, err)
	require.Equal(t, svid.ID.String(), claims.Subject)
	require.Equal(t, jwt.ClaimStrings{member.ID.String()}, claims.Audience)

	// Many calls at once get one and the same.
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 100 {
				again, _, err := generate(info)
				if err != nil || again != tok {
					t.Errorf("got %q, %v", again, err)
				}
			}
		})
	}
	calls.Wait()
}
