// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"crypto/tls"
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
	"github.com/networkservicemesh/registry-lb/internal/identity/workloadtest"
)

// notary signs tokens that say what they are for.
type notary struct {
	clock    *testingclock.FakePassiveClock
	lifetime time.Duration
	err      error
	signed   map[string]signature
}

type signature struct {
	on              credentials.AuthInfo
	signed, expires time.Time
}

func newNotary() *notary {
	return &notary{
		clock:    testingclock.NewFakePassiveClock(time.Unix(1_700_000_000, 0)),
		lifetime: 10 * time.Minute,
		signed:   make(map[string]signature),
	}
}

func (n *notary) generate(info credentials.AuthInfo) (string, time.Time, error) {
	if n.err != nil {
		return "", time.Time{}, n.err
	}
	s := signature{on: info, signed: n.clock.Now(), expires: n.clock.Now().Add(n.lifetime)}
	tok := strconv.Itoa(len(n.signed))
	n.signed[tok] = s
	return tok, s.expires, nil
}

func (n *notary) wait(d time.Duration) { n.clock.SetTime(n.clock.Now().Add(d)) }

func (n *notary) reuse() token.GeneratorFunc { return identity.Reuse(n.generate, n.clock) }

func TestIdentityTokenReuse(t *testing.T) {
	t.Parallel()
	svid := new(x509svid.SVID)
	connection := &identity.AuthInfo{SVID: svid}
	for _, row := range []struct {
		name  string
		after time.Duration
		on    credentials.AuthInfo
		again bool
	}{
		{"at once", 0, connection, true},
		{"while nine tenths of its life are left", time.Minute - time.Nanosecond, connection, true},
		{"after a tenth of its life", time.Minute, connection, false},
		{"after its end", time.Hour, connection, false},
		{"on another connection with the same SVID", 0, &identity.AuthInfo{SVID: svid}, false},
		{"on a connection with another SVID", 0, &identity.AuthInfo{SVID: new(x509svid.SVID)}, false},
		{"on a connection that is not bound to an SVID", 0, credentials.TLSInfo{}, false},
		{"on a connection of which nothing is known", 0, nil, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			n := newNotary()
			generate := n.reuse()
			own := &identity.AuthInfo{SVID: svid} // rows do not share what is kept on a connection
			if row.on == credentials.AuthInfo(connection) {
				row.on = own
			}
			first, _, err := generate(own)
			require.NoError(t, err)
			n.wait(row.after)
			second, expires, err := generate(row.on)
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
	connection := new(identity.AuthInfo)
	for _, n.lifetime = range []time.Duration{0, -time.Minute, -time.Hour} {
		first, _, err := generate(connection)
		require.NoError(t, err)
		second, _, err := generate(connection)
		require.NoError(t, err)
		require.NotEqual(t, first, second)
	}
}

func TestIdentityTokenErrorsAreNotKept(t *testing.T) {
	t.Parallel()
	n := newNotary()
	generate := n.reuse()
	connection := new(identity.AuthInfo)
	n.err = errors.New("no SVID")
	_, _, err := generate(connection)
	require.ErrorIs(t, err, n.err)
	n.err = nil
	tok, _, err := generate(connection)
	require.NoError(t, err)
	require.NotEmpty(t, tok)
}

// Whatever happens, a token was signed for its connection, and has nine tenths of its life ahead.
func TestIdentityTokenProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := newNotary()
		generate := n.reuse()
		connections := []*identity.AuthInfo{new(identity.AuthInfo), new(identity.AuthInfo), new(identity.AuthInfo)}
		rt.Repeat(map[string]func(*rapid.T){
			"wait": func(rt *rapid.T) { n.wait(time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(rt, "for"))) },
			"lifetime": func(rt *rapid.T) {
				n.lifetime = time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(rt, "lifetime"))
			},
			"sign": func(rt *rapid.T) {
				connection := rapid.SampledFrom(connections).Draw(rt, "connection")
				tok, expires, err := generate(connection)
				if err != nil {
					rt.Fatal(err)
				}
				s := n.signed[tok]
				switch left, life := expires.Sub(n.clock.Now()), expires.Sub(s.signed); {
				case s.on != credentials.AuthInfo(connection):
					rt.Fatal("the token was signed for another connection")
				case !s.expires.Equal(expires):
					rt.Fatalf("it expires at %v, not at %v", s.expires, expires)
				case left < life*9/10:
					rt.Fatalf("of %v only %v are left", life, left)
				}
			},
		})
	})
}

// requireToken checks by whom and for whom a token is.
func requireToken(t *testing.T, tok string, by, audience *x509svid.SVID) {
	t.Helper()
	var claims jwt.RegisteredClaims
	_, err := jwt.ParseWithClaims(tok, &claims, func(*jwt.Token) (any, error) { return by.Certificates[0].PublicKey, nil })
	require.NoError(t, err)
	require.Equal(t, by.ID.String(), claims.Subject)
	require.Equal(t, jwt.ClaimStrings{audience.ID.String()}, claims.Audience)
}

// The tokens themselves are those of the SDK: by whom, for whom, and no longer than either certificate.
func TestIdentityTokenClaims(t *testing.T) {
	t.Parallel()
	own := newAuthority(t, "k8s.nsm")
	svid := issue(t, own, lbPath, time.Hour)
	member := issue(t, own, memberPath, 5*time.Minute)
	info := &identity.AuthInfo{SVID: svid, TLSInfo: credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: member.Certificates}}}
	clk := testingclock.NewFakePassiveClock(time.Now())
	generate := identity.Reuse(identity.Tokens(workloadtest.NewWorkload(svid, own), 10*time.Minute, clk), clk)

	tok, expires, err := generate(info)
	require.NoError(t, err)
	require.Equal(t, member.Certificates[0].NotAfter, expires)
	requireToken(t, tok, svid, member)

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

// Whom a token is by is a matter of the connection that it is for, not of the time.
func TestIdentityTokenIsByWhomThePeerWasShown(t *testing.T) {
	t.Parallel()
	own := newAuthority(t, "k8s.nsm")
	first, second := issue(t, own, lbPath, time.Hour), issue(t, own, lbPath, 2*time.Hour)
	member := issue(t, own, memberPath, 3*time.Hour)
	tlsInfo := credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: member.Certificates}}
	for _, row := range []struct {
		name string
		on   credentials.AuthInfo
		at   time.Duration
		by   *x509svid.SVID
	}{
		{"a connection from before the rotation", &identity.AuthInfo{SVID: first, TLSInfo: tlsInfo}, time.Minute, first},
		{"a connection from after the rotation", &identity.AuthInfo{SVID: second, TLSInfo: tlsInfo}, time.Minute, second},
		{"a connection that outlives its SVID", &identity.AuthInfo{SVID: first, TLSInfo: tlsInfo}, time.Hour, second},
		{"a connection that is not bound", tlsInfo, time.Minute, second},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			clk := testingclock.NewFakePassiveClock(time.Now().Add(row.at))
			tok, _, err := identity.Tokens(workloadtest.NewWorkload(second, own), 10*time.Minute, clk)(row.on)
			require.NoError(t, err)
			requireToken(t, tok, row.by, member)
		})
	}
}
