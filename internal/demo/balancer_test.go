// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/networkservicemesh/registry-lb/internal/config"
)

func TestBalancerIsConfiguredAsByTheEnvironment(t *testing.T) {
	b := &balancer{front: "127.0.0.1:5002", admin: "127.0.0.1:9090", dir: "/demo"}
	for name, value := range map[string]string{
		"NSM_LISTEN_ON":       "tcp://127.0.0.1:5002",
		"NSM_ADMIN_LISTEN_ON": "tcp://127.0.0.1:9090",
		"NSM_TLS":             "insecure",
		"NSM_BACKENDS":        "file:///demo/registries",
		"NSM_STORE":           "partitioned",
		"NSM_JOIN_DELAY":      "200ms",
		"NSM_DRAIN_DELAY":     "0s",
		"NSM_DRAIN_TIMEOUT":   "1s",
	} {
		t.Setenv(name, value)
	}
	want, warnings, err := config.Load()
	require.NoError(t, err)
	require.Empty(t, warnings)
	// What is no matter of the demo: its log is its own, nothing is profiled, and without TLS nobody is checked.
	want.LogFormat, want.PprofListenOn = "", ""
	want.RegistryServerPolicies, want.RegistryClientPolicies = nil, nil
	require.Equal(t, want, b.config())
}

func TestBalancerFollowsItsFileAndLeavesNothingBehind(t *testing.T) {
	addrs, err := freePorts(t.Context(), 3)
	require.NoError(t, err)
	b, err := startBalancer(t.Context(), zap.NewNop(), addrs[:2])
	require.NoError(t, err)
	defer b.stop()
	require.NoError(t, b.setMembers(t.Context(), addrs[2:]))
	member, err := b.locate(t.Context(), "nse")
	require.NoError(t, err)
	require.Equal(t, addrs[2], member)
	require.FileExists(t, b.file())
	b.stop()
	require.NoError(t, b.err)
	require.NoDirExists(t, b.dir)
}

func TestPortThatIsTaken(t *testing.T) {
	taken, err := listen(t.Context())
	require.NoError(t, err)
	defer taken.Close()
	free, err := freePorts(t.Context(), 3)
	require.NoError(t, err)
	for _, row := range []struct{ because, front, admin string }{
		{"somebody has the port for clients", taken.Addr().String(), free[0]},
		{"somebody has the port for the admin server", free[1], taken.Addr().String()},
	} {
		t.Run(row.because, func(t *testing.T) {
			_, err := startBalancerAt(t.Context(), zap.NewNop(), []string{free[2]}, row.front, row.admin)
			// This is what makes startBalancer try other ports.
			require.ErrorIs(t, err, syscall.EADDRINUSE)
		})
	}
}
