// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/credentials"

	"github.com/networkservicemesh/registry-lb/internal/identity"
	"github.com/networkservicemesh/registry-lb/internal/identity/workloadtest"
)

const (
	// patience is how long tests wait for what has to come.
	patience = 30 * time.Second
	// tick is how often they look.
	tick = 10 * time.Millisecond

	lbPath     = "/ns/nsm-system/pod/registry-lb"
	clientPath = "/ns/nsm-system/pod/nsmgr"
	memberPath = "/ns/nsm-system/pod/registry-k8s-0"
)

func newAuthority(tb testing.TB, domain string) *workloadtest.Authority {
	tb.Helper()
	a, err := workloadtest.NewAuthority(domain)
	require.NoError(tb, err)
	return a
}

func issue(tb testing.TB, a *workloadtest.Authority, path string, lifetime time.Duration) *x509svid.SVID {
	tb.Helper()
	svid, err := a.Issue(path, lifetime)
	require.NoError(tb, err)
	return svid
}

// workload returns the holder of a good SVID, who trusts its own domain.
func workload(tb testing.TB, a *workloadtest.Authority, path string) *workloadtest.Workload {
	tb.Helper()
	return workloadtest.NewWorkload(issue(tb, a, path, time.Hour), a)
}

// agent is a Workload API that is not started yet, and a source that asks it.
type agent struct {
	*workloadtest.Server
	source *identity.Source
	logs   *observer.ObservedLogs
}

func newAgent(tb testing.TB) *agent {
	tb.Helper()
	server := workloadtest.NewServer(filepath.Join(tb.TempDir(), "agent.sock"))
	core, logs := observer.New(zapcore.InfoLevel)
	source, err := identity.NewSource(server.Addr(), zap.New(core))
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		require.NoError(tb, <-ended)
		server.Stop()
	})
	return &agent{Server: server, source: source, logs: logs}
}

// startAgent is an agent that has given its source an SVID.
func startAgent(tb testing.TB, svid *x509svid.SVID, own *workloadtest.Authority, federated ...*workloadtest.Authority) *agent {
	tb.Helper()
	a := newAgent(tb)
	require.NoError(tb, a.Set(svid, own, federated...))
	require.NoError(tb, a.Start(tb.Context()))
	// Whether it is still good by then is not asked: the machine may be slow, and the SVID short-lived.
	select {
	case <-a.source.Given():
	case <-time.After(patience):
		require.FailNow(tb, "no SVID was given")
	}
	return a
}

// has waits until the source has this SVID.
func (a *agent) has(tb testing.TB, svid *x509svid.SVID) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		current, err := a.source.GetX509SVID()
		return err == nil && current.Certificates[0].Equal(svid.Certificates[0])
	}, patience, tick)
}

// outcome is how a handshake ended at both sides.
type outcome struct {
	server, client error
	// seen is what the client knows of the connection, bound what it knows of its own part; nil if that is not bound.
	seen  tls.ConnectionState
	bound *identity.AuthInfo
	// accepted is what the server knows.
	accepted credentials.AuthInfo
}

// handshake connects the client to the server and exchanges a byte, so that each side knows what the other made of it.
func handshake(tb testing.TB, server, client credentials.TransportCredentials) outcome {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	defer func() { _ = l.Close() }()
	var o outcome
	served := make(chan error, 1)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			served <- err
			return
		}
		defer func() { _ = raw.Close() }()
		conn, info, err := server.ServerHandshake(raw)
		o.accepted = info
		if err == nil {
			_, err = conn.Write([]byte{1})
		}
		served <- err
	}()
	raw, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", l.Addr().String())
	require.NoError(tb, err)
	defer func() { _ = raw.Close() }()
	require.NoError(tb, raw.SetDeadline(time.Now().Add(patience)))
	conn, info, err := client.ClientHandshake(tb.Context(), "registry", raw)
	if err == nil {
		switch info := info.(type) {
		case credentials.TLSInfo:
			o.seen = info.State
		case *identity.AuthInfo:
			o.seen, o.bound = info.State, info
		}
		_, err = conn.Read(make([]byte, 1))
	}
	o.client = err
	_ = raw.Close()
	o.server = <-served
	return o
}
