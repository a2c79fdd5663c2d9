// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:9090":       "http://127.0.0.1:9090",
		"127.0.0.1:9090":              "http://127.0.0.1:9090",
		"registry-lb.nsm-system:9090": "http://registry-lb.nsm-system:9090",
		"[::1]:9090":                  "http://[::1]:9090",
		"https://ops.example.org/lb":  "https://ops.example.org/lb",
		"unix:///run/admin.sock":      "unix:///run/admin.sock",
	} {
		target, err := ParseTarget(text)
		require.NoError(t, err, text)
		require.Equal(t, want, target.String())
	}
	for text, want := range map[string]string{
		"":                         "the host is missing",
		"http://:9090":             "the host is missing",
		"http://a:port":            `not a URL: invalid port ":port" after host`,
		"tcp://a:9090":             `the scheme is http, https or unix, not "tcp"`,
		"unix://run/admin.sock":    "the path of a socket needs three slashes, as in unix:///path",
		"http://a:1/?q":            "only a scheme, an address and a path are expected",
		"http://user:secret@a:1":   "only a scheme, an address and a path are expected",
		"http://a:1#f":             "only a scheme, an address and a path are expected",
		"http://a\x1b[2J:1":        `not a URL: net/url: invalid control character in URL`,
		"http://127.0.0.1:9090 -o": `not a URL: invalid port ":9090 -o" after host`,
	} {
		_, err := ParseTarget(text)
		require.EqualError(t, err, want, text)
	}
}

func TestTargetOf(t *testing.T) {
	for listenOn, want := range map[string]string{
		"":                       "http://127.0.0.1:9090",
		"tcp://:9090":            "http://127.0.0.1:9090",
		"tcp://0.0.0.0:9091":     "http://127.0.0.1:9091",
		"tcp://[::]:9092":        "http://[::1]:9092",
		"tcp://10.1.2.3:9093":    "http://10.1.2.3:9093",
		"tcp://localhost:9094":   "http://localhost:9094",
		"unix:///run/admin.sock": "unix:///run/admin.sock",
	} {
		target, err := TargetOf(listenOn)
		require.NoError(t, err, listenOn)
		require.Equal(t, want, target.String())
	}
	for listenOn, want := range map[string]string{
		"9090":     "the scheme is missing, tcp:// or unix://",
		"tcp://:0": "it stands for any free port, so the address has to be named",
	} {
		_, err := TargetOf(listenOn)
		require.EqualError(t, err, want, listenOn)
	}
}

func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(newHandler(&view{}))
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	defer server.Close()
	target, err := TargetOf("unix://" + socket)
	require.NoError(t, err)
	require.Equal(t, outcome{out: "There is no member at static://a:1.\n"}, show(t.Context(), Options{Target: target, Output: Table}, Members()))
}

func TestAPIBelowAPath(t *testing.T) {
	target := serve(t, http.StripPrefix("/ops/lb", newHandler(&view{})))
	target, err := ParseTarget(target.String() + "/ops/lb")
	require.NoError(t, err)
	require.NoError(t, show(t.Context(), Options{Target: target, Output: Table}, Members()).failure)
}
