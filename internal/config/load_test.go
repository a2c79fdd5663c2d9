// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/internal/logging"
	"github.com/networkservicemesh/registry-lb/pkg/endpoints"
)

// setenv makes env, and NSM_TLS=insecure unless it says otherwise, all that the environment has of our prefix.
func setenv(t *testing.T, env map[string]string) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, Prefix+"_") {
			t.Setenv(name, value) // so that it comes back
			require.NoError(t, os.Unsetenv(name))
		}
	}
	t.Setenv("NSM_TLS", "insecure")
	for name, value := range env {
		t.Setenv(name, value)
	}
}

func TestDefaults(t *testing.T) {
	setenv(t, nil)
	cfg, warnings, err := Load()
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, &Config{
		ListenOn: ListenAddrs{{Network: "tcp", Address: ":5002"}},
		Backends: Backends{endpoints.Spec{
			Scheme: endpoints.Kubernetes, Service: "registry-k8s", Port: endpoints.Port{Name: "registry"},
		}},
		Store:         StoreShared,
		TLS:           TLSInsecure,
		NoBackendWait: 5 * time.Second,
		RegistryServerPolicies: Masks{
			"etc/nsm/opa/common/.*.rego", "etc/nsm/opa/registry/.*.rego", "etc/nsm/opa/server/.*.rego",
		},
		RegistryClientPolicies: Masks{
			"etc/nsm/opa/common/.*.rego", "etc/nsm/opa/registry/.*.rego", "etc/nsm/opa/client/.*.rego",
		},
		MaxTokenLifetime: 10 * time.Minute,
		ProbeInterval:    time.Second,
		ProbeTimeout:     time.Second,
		JoinDelay:        2 * time.Second,
		EmptyGrace:       30 * time.Second,
		DrainDelay:       5 * time.Second,
		DrainTimeout:     20 * time.Second,
		AdminListenOn:    ListenAddr{Network: "tcp", Address: ":9090"},
		LogFormat:        logging.JSON,
		LogLevel:         logging.InfoLevel,
		PprofListenOn:    "localhost:6060",
	}, cfg)
}

func TestEachVariableIsRead(t *testing.T) {
	rows := []struct {
		name, value string
		got         func(*Config) any
		want        any
	}{
		{
			"NSM_LISTEN_ON", "tcp://127.0.0.1:1, unix:///run/a.sock,tcp://[::1]:1", func(c *Config) any { return c.ListenOn },
			ListenAddrs{{"tcp", "127.0.0.1:1"}, {"unix", "/run/a.sock"}, {"tcp", "[::1]:1"}},
		},
		{
			"NSM_BACKENDS", "static://a:1,b:2", func(c *Config) any { return c.Backends },
			Backends{endpoints.Spec{Scheme: endpoints.Static, Addrs: []string{"a:1", "b:2"}}},
		},
		{"NSM_STORE", "Partitioned", func(c *Config) any { return c.Store }, StorePartitioned},
		{"NSM_TLS", " Insecure ", func(c *Config) any { return c.TLS }, TLSInsecure},
		{"NSM_REGISTRY_SERVER_POLICIES", " a.rego, ", func(c *Config) any { return c.RegistryServerPolicies }, Masks{"a.rego"}},
		{"NSM_REGISTRY_CLIENT_POLICIES", "a.rego,b/.*.rego", func(c *Config) any { return c.RegistryClientPolicies }, Masks{"a.rego", "b/.*.rego"}},
		{"NSM_BACKEND_IDENTITIES", "spiffe://a/b/*, spiffe://c", func(c *Config) any { return c.BackendIdentities }, IDPatterns{"spiffe://a/b/*", "spiffe://c"}},
		{"NSM_NO_BACKEND_WAIT", "0s", func(c *Config) any { return c.NoBackendWait }, time.Duration(0)},
		{"NSM_MAX_TOKEN_LIFETIME", "1h", func(c *Config) any { return c.MaxTokenLifetime }, time.Hour},
		{"NSM_PROBE_INTERVAL", "100ms", func(c *Config) any { return c.ProbeInterval }, 100 * time.Millisecond},
		{"NSM_PROBE_TIMEOUT", "2s", func(c *Config) any { return c.ProbeTimeout }, 2 * time.Second},
		{"NSM_JOIN_DELAY", "10m", func(c *Config) any { return c.JoinDelay }, 10 * time.Minute},
		{"NSM_EMPTY_GRACE", "0s", func(c *Config) any { return c.EmptyGrace }, time.Duration(0)},
		{"NSM_DRAIN_DELAY", "1ms", func(c *Config) any { return c.DrainDelay }, time.Millisecond},
		{"NSM_DRAIN_TIMEOUT", "1m30s", func(c *Config) any { return c.DrainTimeout }, 90 * time.Second},
		{"NSM_ADMIN_LISTEN_ON", "unix:///a/../b", func(c *Config) any { return c.AdminListenOn }, ListenAddr{"unix", "/b"}},
		{"NSM_LOG_FORMAT", "console", func(c *Config) any { return c.LogFormat }, logging.Console},
		{"NSM_LOG_LEVEL", "trace", func(c *Config) any { return c.LogLevel }, logging.TraceLevel},
		{"NSM_PPROF_ENABLED", "true", func(c *Config) any { return c.PprofEnabled }, true},
		{"NSM_PPROF_LISTEN_ON", ":6061", func(c *Config) any { return c.PprofListenOn }, HostPort(":6061")},
	}
	names := make([]string, len(rows))
	for i, row := range rows {
		names[i] = row.name
		t.Run(row.name, func(t *testing.T) {
			setenv(t, map[string]string{row.name: row.value})
			cfg, warnings, err := Load()
			require.NoError(t, err)
			require.Empty(t, warnings)
			require.Equal(t, row.want, row.got(cfg))
		})
	}
	vars := variables()
	known := make([]string, len(vars))
	for i, v := range vars {
		known[i] = v.Name
	}
	require.Equal(t, known, names, "each variable has a row, in the order of Config")
}

func TestEachBadValueStopsTheStart(t *testing.T) {
	rows := []struct{ because, name, value, says string }{
		{"an empty address is none", "NSM_LISTEN_ON", "", "the scheme is missing"},
		{"an address needs a scheme", "NSM_LISTEN_ON", ":5002", "not a URL: missing protocol scheme"},
		{"an address needs a scheme that is known", "NSM_LISTEN_ON", "udp://:5002", `the scheme is tcp:// or unix://, not "udp"`},
		{"a host without a port is not enough", "NSM_LISTEN_ON", "tcp://localhost", "missing port in address"},
		{"a port is a number", "NSM_LISTEN_ON", "tcp://:registry", `invalid port ":registry" after host`},
		{"a port has 16 bits", "NSM_LISTEN_ON", "tcp://:65536", `the port is a number up to 65535, not "65536"`},
		{"an empty port is no port", "NSM_LISTEN_ON", "tcp://:", `the port is a number up to 65535, not ""`},
		{"a tcp address has no path", "NSM_LISTEN_ON", "tcp://:5002/a", `a tcp address has no path, but "/a" is there`},
		{"a user in a URL is no address", "NSM_LISTEN_ON", "tcp://a:b@c:1", "only a scheme and an address are expected"},
		{"one bad address of several is named", "NSM_LISTEN_ON", "tcp://:5002,", "address 2: the scheme is missing"},
		{"the same address twice cannot be had", "NSM_LISTEN_ON", "tcp://:1,tcp://:1", "tcp://:1 is there twice"},
		{"a socket's path is absolute", "NSM_LISTEN_ON", "unix://run/a", "three slashes"},
		{"a socket needs a path", "NSM_LISTEN_ON", "unix:///", "the path of the socket is missing"},
		{"a directory is no socket", "NSM_LISTEN_ON", "unix:///run/", "the path of the socket is missing"},
		{"a path that the kernel refuses", "NSM_LISTEN_ON", "unix:///" + strings.Repeat("a", 107), "at most 107 bytes, not 108"},
		{"the admin address is one", "NSM_ADMIN_LISTEN_ON", "tcp://:1,tcp://:2", "one address is expected"},
		{"members come from somewhere known", "NSM_BACKENDS", "http://a", "unknown scheme"},
		{"stores have names", "NSM_STORE", "etcd", "it is one of shared, partitioned"},
		{"an identity has a scheme", "NSM_BACKEND_IDENTITIES", "k8s.nsm/ns/a", "begins with spiffe://"},
		{"an identity has wildcards that can be read", "NSM_BACKEND_IDENTITIES", "spiffe://k8s.nsm/pod/[", "syntax error in pattern"},
		{"modes have names", "NSM_TLS", "off", "it is one of spiffe, insecure"},
		{"a duration has a unit", "NSM_DRAIN_DELAY", "5", "a duration with a unit"},
		{"a duration is not negative", "NSM_DRAIN_DELAY", "-1s", "it is between 0s and 10m"},
		{"a duration is not endless", "NSM_DRAIN_TIMEOUT", "1h1ns", "it is between 0s and 1h"},
		{"an empty duration is none", "NSM_JOIN_DELAY", "", "a duration with a unit"},
		{"formats have names", "NSM_LOG_FORMAT", "xml", "it is one of json, console"},
		{"levels have names", "NSM_LOG_LEVEL", "loud", "it is one of TRACE, DEBUG, INFO, WARN, ERROR, FATAL"},
		{"a switch is on or off", "NSM_PPROF_ENABLED", "maybe", "it is true or false"},
		{"profiles need a port", "NSM_PPROF_LISTEN_ON", "localhost", "missing port in address"},
	}
	for _, row := range rows {
		t.Run(row.because, func(t *testing.T) {
			setenv(t, map[string]string{row.name: row.value})
			cfg, _, err := Load()
			require.Nil(t, cfg)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "\n", "one line")
			require.Contains(t, err.Error(), row.name+`="`+row.value+`"`)
			require.Contains(t, err.Error(), row.says)
			require.Contains(t, err.Error(), "(example: "+row.name+"=")
		})
	}
}

func TestAllBadValuesAreNamedAtOnce(t *testing.T) {
	setenv(t, map[string]string{"NSM_LISTEN_ON": "a b", "NSM_LOG_LEVEL": "1\n2", "NSM_DRAIN_DELAY": strings.Repeat("9", 1<<20)})
	_, _, err := Load()
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 3)
	for i, name := range []string{"NSM_LISTEN_ON=", "NSM_DRAIN_DELAY=", "NSM_LOG_LEVEL="} {
		require.True(t, strings.HasPrefix(lines[i], name), "%s in %s", name, lines[i])
		require.Less(t, len(lines[i]), 1000)
	}
}

func TestAddressesThatCannotBothBeHad(t *testing.T) {
	setenv(t, map[string]string{
		"NSM_LISTEN_ON": "tcp://:1,tcp://localhost:2", "NSM_ADMIN_LISTEN_ON": "tcp://:1",
		"NSM_PPROF_ENABLED": "true", "NSM_PPROF_LISTEN_ON": "localhost:2",
	})
	_, _, err := Load()
	require.EqualError(t, err, "NSM_ADMIN_LISTEN_ON: tcp://:1 is already used by NSM_LISTEN_ON; give each an address of its own\n"+
		"NSM_PPROF_LISTEN_ON: tcp://localhost:2 is already used by NSM_LISTEN_ON; give each an address of its own")

	t.Run("a listener that is off takes no address", func(t *testing.T) {
		t.Setenv("NSM_PPROF_ENABLED", "false")
		t.Setenv("NSM_ADMIN_LISTEN_ON", "tcp://:3")
		_, _, err := Load()
		require.NoError(t, err)
	})
	t.Run("a free port can be asked for twice", func(t *testing.T) {
		t.Setenv("NSM_PPROF_ENABLED", "false")
		t.Setenv("NSM_LISTEN_ON", "tcp://:0")
		t.Setenv("NSM_ADMIN_LISTEN_ON", "tcp://:0")
		_, _, err := Load()
		require.NoError(t, err)
	})
}

func TestMisspelledVariables(t *testing.T) {
	rows := []struct{ because, name, meant string }{
		{"a missing letter", "NSM_BACKEND", "NSM_BACKENDS"},
		{"a missing underscore", "NSM_LISTENON", "NSM_LISTEN_ON"},
		{"two slips in a long name", "NSM_NOBACKEND_WAITS", "NSM_NO_BACKEND_WAIT"},
		{"one slip in a short name", "NSM_TLSS", "NSM_TLS"},
		{"lower case", "nsm_store", "NSM_STORE"},
		{"two slips in a short name make another name", "NSM_TXX", ""},
		{"a variable of another NSM command", "NSM_URL", ""},
		{"a variable of another NSM command that is longer", "NSM_LISTEN_ON_URL", ""},
		{"a variable of other releases", "NSM_READS", ""},
		{"another prefix", "NSMX_STORE", ""},
	}
	for _, row := range rows {
		t.Run(row.because, func(t *testing.T) {
			setenv(t, map[string]string{row.name: "1"})
			_, warnings, err := Load()
			require.NoError(t, err)
			if row.meant == "" {
				require.Empty(t, warnings)
				return
			}
			require.Equal(t, []string{
				row.name + " is not a variable of registry-lb and is ignored; did you mean " + row.meant + "?",
			}, warnings)
		})
	}
}

func TestNoVariableLooksLikeAnother(t *testing.T) {
	for i, v := range variables() {
		others := append(append([]variable{}, variables()[:i]...), variables()[i+1:]...)
		require.Empty(t, nearest(v.Name, others), v.Name)
	}
}
