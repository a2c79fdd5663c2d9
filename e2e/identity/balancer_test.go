// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/networkservicemesh/registry-lb/internal/admin"
	"github.com/networkservicemesh/registry-lb/internal/app"
	"github.com/networkservicemesh/registry-lb/internal/config"
)

// balancer is a registry-lb, all of it but for its main function.
type balancer struct {
	// target is where clients connect.
	target string
	// stop ends it in good order.
	stop  func()
	admin *http.Client
	logs  *observer.ObservedLogs
}

// startBalancer starts a registry-lb in front of the listed replicas, and waits until it is ready.
func (w *world) startBalancer(t *testing.T) *balancer {
	t.Helper()
	b := w.launchBalancer(t)
	b.ready(t)
	return b
}

// ready waits until it is.
func (b *balancer) ready(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return b.get(t, "/readyz", nil) == http.StatusOK }, patience, tick)
}

// launchBalancer starts a registry-lb and waits until it answers at all.
func (w *world) launchBalancer(t *testing.T) *balancer {
	t.Helper()
	dir := shortDir(t)
	front, adminSocket := filepath.Join(dir, "front.sock"), filepath.Join(dir, "admin.sock")
	for name, value := range map[string]string{
		workloadapi.SocketEnv:    w.agent.Addr(),
		"NSM_LISTEN_ON":          "unix://" + front,
		"NSM_ADMIN_LISTEN_ON":    "unix://" + adminSocket,
		"NSM_BACKENDS":           "file://" + w.listed,
		"NSM_BACKEND_IDENTITIES": "spiffe://k8s.nsm/ns/*/pod/registry-k8s-*",
		"NSM_JOIN_DELAY":         "200ms",
		"NSM_DRAIN_DELAY":        "0s",
		"NSM_DRAIN_TIMEOUT":      "1s",
	} {
		t.Setenv(name, value)
	}
	cfg, warnings, err := config.Load()
	require.NoError(t, err)
	require.Empty(t, warnings)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	core, logs := observer.New(zap.InfoLevel)
	log := zap.New(zapcore.NewTee(core, zaptest.NewLogger(t).Core()))
	go func() { ended <- app.Run(ctx, cfg, log) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", adminSocket)
	}}
	b := &balancer{target: "unix://" + front, admin: &http.Client{Transport: transport}, logs: logs}
	b.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
		transport.CloseIdleConnections()
	})
	t.Cleanup(b.stop)
	require.Eventually(t, func() bool { return b.get(t, "/healthz", nil) == http.StatusOK }, patience, tick)
	return b
}

// get reads a page of the admin server into v, and returns its status; 0 if there is no answer.
func (b *balancer) get(t *testing.T, page string, v any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://admin"+page, http.NoBody)
	require.NoError(t, err)
	resp, err := b.admin.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	if v != nil {
		require.NoError(t, json.NewDecoder(resp.Body).Decode(v))
	}
	return resp.StatusCode
}

// members are those that registry-lb knows.
func (b *balancer) members(t *testing.T) []admin.Member {
	t.Helper()
	var page struct{ Members []admin.Member }
	require.Equal(t, http.StatusOK, b.get(t, "/api/v1/members", &page))
	return page.Members
}

// live waits until so many members get calls, and it is known who they are.
func (b *balancer) live(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		count := 0
		for _, m := range b.members(t) {
			if m.State == admin.Live && m.SpiffeID != "" {
				count++
			}
		}
		return count == n
	}, patience, tick)
}
