// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/internal/identity"
)

func TestIdentityNeedsAnAddress(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, addr, says string
	}{
		{"none", "", "set SPIFFE_ENDPOINT_SOCKET"},
		{"a path without scheme", "/run/agent.sock", `SPIFFE_ENDPOINT_SOCKET="/run/agent.sock"`},
		{"another scheme", "http://agent", `SPIFFE_ENDPOINT_SOCKET="http://agent"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := identity.NewSource(row.addr, nil)
			require.ErrorContains(t, err, row.says)
			require.ErrorContains(t, err, "NSM_TLS=spiffe")
		})
	}
}

func TestIdentityWaitsForTheWorkloadAPI(t *testing.T) {
	t.Parallel()
	domain := newAuthority(t, "k8s.nsm")
	a := newAgent(t)
	require.Eventually(t, func() bool { return a.logs.FilterLevelExact(zapcore.WarnLevel).Len() > 0 }, patience, tick)
	require.ErrorContains(t, a.source.Err(), "no certificate from the Workload API at "+a.Addr()+": there is no SVID yet")
	require.ErrorContains(t, a.source.Err(), "no such file", "it must say why")
	_, err := a.source.GetX509BundleForTrustDomain(domain.Domain())
	require.Error(t, err)
	require.Error(t, handshake(t, identity.ServerCredentials(a.source),
		identity.ClientCredentials(workload(t, domain, clientPath), nil)).client, "nobody is served without a certificate")

	// It is there, and does not know the workload yet.
	require.NoError(t, a.Start(t.Context()))
	require.Eventually(t, func() bool {
		return status.Code(a.source.Err()) == codes.PermissionDenied
	}, patience, tick)
	require.ErrorContains(t, a.source.Err(), "no identity issued")

	select {
	case <-a.source.Given():
		require.Fail(t, "there is no SVID yet")
	default:
	}

	svid := issue(t, domain, lbPath, time.Hour)
	require.NoError(t, a.Set(svid, domain))
	a.has(t, svid)
	<-a.source.Given()
	require.NoError(t, a.source.Err())
	require.Len(t, a.logs.FilterLevelExact(zapcore.WarnLevel).All(), 1, "one line says that there is something to wait for")
	require.Equal(t, 1, a.logs.FilterMessage("got an SVID").Len())
}

func TestIdentityGoesOnWithoutTheWorkloadAPI(t *testing.T) {
	t.Parallel()
	domain := newAuthority(t, "k8s.nsm")
	first := issue(t, domain, lbPath, time.Hour)
	a := startAgent(t, first, domain)
	client := identity.ClientCredentials(workload(t, domain, clientPath), nil)

	a.Stop()
	const away = "the Workload API does not answer: what there is stays in use until it expires"
	require.Eventually(t, func() bool { return a.logs.FilterMessage(away).Len() > 0 }, patience, tick)
	require.NoError(t, a.source.Err(), "what there is stays good")
	require.NoError(t, handshake(t, identity.ServerCredentials(a.source), client).client)

	second := issue(t, domain, lbPath, time.Hour)
	require.NoError(t, a.Set(second, domain))
	require.NoError(t, a.Start(t.Context()))
	a.has(t, second)
	require.Equal(t, 1, a.logs.FilterMessage(away).Len(), "one line for each time that it is away")
}

// A server that is told to stop may end its streams with Canceled, which go-spiffe takes for its own caller's wish.
func TestIdentityAsksAgainWhateverEndsTheStream(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.OK, codes.Canceled, codes.Unavailable, codes.InvalidArgument, codes.PermissionDenied} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			domain := newAuthority(t, "k8s.nsm")
			a := startAgent(t, issue(t, domain, lbPath, time.Hour), domain)
			next := issue(t, domain, lbPath, time.Hour)
			a.End(status.Error(code, "enough"))
			require.Eventually(t, func() bool { return a.Streams() == 0 }, patience, tick)
			require.NoError(t, a.Set(next, domain))
			a.has(t, next)
		})
	}
}

func TestIdentitySaysWhenTheSVIDIsRenewed(t *testing.T) {
	t.Parallel()
	domain, friend := newAuthority(t, "k8s.nsm"), newAuthority(t, "friend.nsm")
	first := issue(t, domain, lbPath, time.Hour)
	a := startAgent(t, first, domain)
	renewed := func() bool {
		select {
		case <-a.source.Renewed():
			return true
		default:
			return false
		}
	}
	require.False(t, renewed(), "the first SVID renews none")
	// More trust is no other SVID.
	require.NoError(t, a.Set(first, domain, friend))
	require.Eventually(t, func() bool {
		_, err := a.source.GetX509BundleForTrustDomain(friend.Domain())
		return err == nil
	}, patience, tick)
	require.False(t, renewed())
	for range 2 {
		for range 2 {
			next := issue(t, domain, lbPath, time.Hour)
			require.NoError(t, a.Set(next, domain, friend))
			a.has(t, next)
		}
		require.Eventually(t, renewed, patience, tick)
	}
}

func TestIdentitySaysThatTheSVIDExpired(t *testing.T) {
	t.Parallel()
	domain := newAuthority(t, "k8s.nsm")
	a := startAgent(t, issue(t, domain, lbPath, 2*time.Second), domain)
	a.Stop()
	require.Eventually(t, func() bool { return a.source.Err() != nil }, patience, tick, "an SVID that expired secures nothing")
	require.ErrorContains(t, a.source.Err(), "the SVID expired at ")

	next := issue(t, domain, lbPath, time.Hour)
	require.NoError(t, a.Set(next, domain))
	require.NoError(t, a.Start(t.Context()))
	a.has(t, next)
	require.NoError(t, a.source.Err())
}
