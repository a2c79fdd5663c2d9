// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/credentials"

	"github.com/networkservicemesh/registry-lb/internal/identity"
	"github.com/networkservicemesh/registry-lb/internal/identity/workloadtest"
)

// anyMember secures connections to whoever is in a trusted domain.
func anyMember(s identity.SVIDs) credentials.TransportCredentials {
	return identity.ClientCredentials(s, nil)
}

func TestIdentityBoundConnectionsSayWhatTheyShow(t *testing.T) {
	t.Parallel()
	own := newAuthority(t, "k8s.nsm")
	first, second := issue(t, own, lbPath, time.Hour), issue(t, own, lbPath, time.Hour)
	lb := workloadtest.NewWorkload(first, own)
	other := workload(t, own, memberPath)
	otherSVID, err := other.GetX509SVID()
	require.NoError(t, err)
	server, client := identity.Bind(lb, identity.ServerCredentials), identity.Bind(lb, anyMember).Clone()
	for _, row := range []struct {
		name string
		set  func()
	}{
		{"the first SVID", func() {}},
		{"the second SVID", func() { lb.Renew(second) }},
		{"the first SVID again", func() { lb.Renew(first) }},
	} {
		row.set()
		current, err := lb.GetX509SVID()
		require.NoError(t, err)

		o := handshake(t, server, identity.ClientCredentials(other, nil))
		require.NoError(t, o.server, row.name)
		require.True(t, o.seen.PeerCertificates[0].Equal(current.Certificates[0]), "the client was shown something else than %s", row.name)
		accepted, ok := o.accepted.(*identity.AuthInfo)
		require.True(t, ok)
		require.Same(t, current, accepted.SVID)
		require.True(t, identity.Certificate(accepted).Equal(otherSVID.Certificates[0]))

		o = handshake(t, identity.ServerCredentials(other), client)
		require.NoError(t, o.client, row.name)
		require.Same(t, current, o.bound.SVID)
		require.True(t, identity.Certificate(o.accepted).Equal(current.Certificates[0]), "the member was shown something else than %s", row.name)
		require.Equal(t, other.ID(), o.bound.TLS().SPIFFEID.String())
	}
}

func TestIdentityBoundConnectionsNeedAnSVID(t *testing.T) {
	t.Parallel()
	own := newAuthority(t, "k8s.nsm")
	a := newAgent(t)
	o := handshake(t, identity.Bind(a.source, identity.ServerCredentials), anyMember(workload(t, own, clientPath)))
	require.ErrorContains(t, o.server, "there is no SVID yet")
	require.Error(t, o.client)
	o = handshake(t, identity.ServerCredentials(workload(t, own, memberPath)), identity.Bind(a.source, anyMember))
	require.ErrorContains(t, o.client, "there is no SVID yet")
}

func TestIdentityBoundCredentialsAreTLS(t *testing.T) {
	t.Parallel()
	own := newAuthority(t, "k8s.nsm")
	bound := identity.Bind(workload(t, own, lbPath), identity.ServerCredentials)
	require.Equal(t, "tls", bound.Info().SecurityProtocol)
	require.Nil(t, identity.Certificate(nil))
	require.Nil(t, identity.Certificate(credentials.TLSInfo{}))
	require.Nil(t, identity.Certificate(new(identity.AuthInfo)))
}

func TestIdentityRefusedConnectionsHaveALine(t *testing.T) {
	t.Parallel()
	own, foreign := newAuthority(t, "k8s.nsm"), newAuthority(t, "foreign.nsm")
	core, logs := observer.New(zap.WarnLevel)
	server := identity.LogRefused(identity.Bind(workload(t, own, lbPath), identity.ServerCredentials), zap.New(core)).Clone()
	trusting := func(a *workloadtest.Authority) credentials.TransportCredentials {
		return anyMember(workloadtest.NewWorkload(issue(t, a, clientPath, time.Hour), own, foreign))
	}

	require.NoError(t, handshake(t, server, trusting(own)).client)
	require.Zero(t, logs.Len())
	require.Error(t, handshake(t, server, trusting(foreign)).client)
	require.Equal(t, 1, logs.Len())
	line := logs.TakeAll()[0]
	require.Equal(t, "a connection was refused", line.Message)
	require.Contains(t, line.ContextMap()["from"], "127.0.0.1:")
	require.Contains(t, line.ContextMap()["error"], "foreign.nsm")

	// A connection that is closed without a word.
	here, there := net.Pipe()
	require.NoError(t, there.Close())
	_, _, err := server.ServerHandshake(here)
	require.ErrorIs(t, err, io.EOF)
	require.Zero(t, logs.Len())
}
