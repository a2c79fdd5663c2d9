// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/internal/admin"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// view is an admin.View with one member, or none.
type view struct {
	empty    bool
	notReady []string
}

func (v view) NotReady() []string { return v.notReady }
func (view) Status() admin.Status { return admin.Status{Keys: 1, DirectorySynced: true} }

func (v view) Members() []admin.Member {
	if v.empty {
		return nil
	}
	return []admin.Member{{Name: "registry-0", State: admin.Live, Reason: "ready", RingShare: 1}}
}

func (v view) Locate(space shard.Space, _ string) (admin.Location, bool) {
	return admin.Location{Member: "registry-0 for the " + space.String(), Reason: "ring"}, !v.empty
}

// serveAdmin serves the admin API of a registry-lb and returns its address.
func serveAdmin(t *testing.T, v view) (addr string) {
	t.Helper()
	server := httptest.NewServer(admin.NewHandler(v, prometheus.NewRegistry(), "static://a:1"))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestAsk(t *testing.T) {
	t.Setenv("NSM_ADMIN_LISTEN_ON", "tcp://127.0.0.1:1")
	ready := serveAdmin(t, view{})
	empty := serveAdmin(t, view{empty: true, notReady: []string{"no\ncertificate"}})
	const (
		members = "NAME        STATE  SINCE  SHARE   KEYS  IN-FLIGHT  ADDRESSES  NODE  ZONE  REASON\n" +
			"registry-0  live   -      100.0%  0     0          -          -     -     ready\n"
		notReady = "Ready      no: no\\x0acertificate\nBackends   static://a:1\nDirectory  in sync\nKeys       1\nChecksum   0000000000000000\n"
		noMember = "registry-lb: nobody serves it: there is no member at static://a:1\n"
	)
	for _, row := range []struct {
		args string
		want outcome
	}{
		{"members --admin " + ready, outcome{exitFine, members, ""}},
		{"members --admin http://" + ready + " -o table --timeout 1m", outcome{exitFine, members, ""}},
		{"members --admin " + empty, outcome{exitFine, "There is no member at static://a:1.\n", ""}},
		{"members --output json --admin " + empty, outcome{exitFine, `{"backends":"static://a:1","members":[]}` + "\n", ""}},
		{"status --admin " + ready, outcome{exitFine, "Ready      yes\nBackends   static://a:1\nDirectory  in sync\nKeys       1\nChecksum   0000000000000000\n", ""}},
		{"status --admin " + empty, outcome{exitNo, notReady, ""}},
		{"locate a --admin " + ready, outcome{exitFine, "NSE  MEMBER                  REASON  SINCE  EXPIRES\na    registry-0 for the nse  ring    -      -\n", ""}},
		{"locate --ns -o json a --admin " + ready, outcome{exitFine, `{"key":"a","member":"registry-0 for the ns","reason":"ring"}` + "\n", ""}},
		{"locate a --admin " + empty, outcome{exitNo, "", noMember}},
		{"locate a -o json --admin " + empty, outcome{exitNo, `{"error":"there is no member at static://a:1"}` + "\n", noMember}},
		{"status", outcome{exitFailure, "", "registry-lb: nobody listens at http://127.0.0.1:1: start registry-lb there, or name its admin address with --admin\n"}},
		{"status --watch", outcome{exitFailure, "", "registry-lb: nobody listens at http://127.0.0.1:1: start registry-lb there, or name its admin address with --admin\n"}},
		{"locate", outcome{exitUsage, "", "registry-lb: locate []: one NAME is expected, as in registry-lb locate nse-17\n"}},
		{"locate a b", outcome{exitUsage, "", "registry-lb: locate [\"a\" \"b\"]: one NAME is expected, as in registry-lb locate nse-17\n"}},
		{"locate a\xff", outcome{exitUsage, "", "registry-lb: locate [\"a\\xff\"]: one NAME is expected, as in registry-lb locate nse-17\n"}},
		{"status --admin ftp://a", outcome{exitUsage, "", "registry-lb: --admin \"ftp://a\": the scheme is http, https or unix, not \"ftp\"\n"}},
		{"status --timeout 0s", outcome{exitUsage, "", "registry-lb: --timeout 0s: it has to be more than 0\n"}},
		{"status --watch --interval 1ms", outcome{exitUsage, "", "registry-lb: --interval 1ms: it has to be 100ms or more\n"}},
		{"status -o yaml", outcome{exitUsage, "", "registry-lb: invalid argument \"yaml\" for \"-o, --output\" flag: it is one of table, json\n"}},
	} {
		t.Run(row.args, func(t *testing.T) {
			require.Equal(t, row.want, start(t.Context(), programs{}, strings.Fields(row.args)...))
		})
	}
}

func TestAskWhereTheEnvironmentSays(t *testing.T) {
	t.Setenv("NSM_ADMIN_LISTEN_ON", "tcp://"+serveAdmin(t, view{}))
	require.Equal(t, exitFine, start(t.Context(), programs{}, "status").code)

	t.Setenv("NSM_ADMIN_LISTEN_ON", "9090")
	require.Equal(t, outcome{exitUsage, "", `registry-lb: NSM_ADMIN_LISTEN_ON="9090": the scheme is missing, tcp:// or unix://; name the address with --admin` + "\n"},
		start(t.Context(), programs{}, "status"))
}

func TestAskUntilInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := admin.NewHandler(view{notReady: []string{"draining"}}, prometheus.NewRegistry(), "")
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 3 {
			cancel()
		}
		h.ServeHTTP(w, r)
	}))
	defer server.Close()
	end := start(ctx, programs{}, "status", "-w", "--interval", "100ms", "-o", "json", "--admin", server.URL)
	require.Equal(t, exitFine, end.code, end.stderr)
	require.Equal(t, 2, strings.Count(end.stdout, `"ready":false`), end.stdout)
	require.NotContains(t, end.stdout, "\x1b")
}

func TestAskHelpTellsExitCodes(t *testing.T) {
	for command, codes := range map[string]string{"members": "012", "status": "0123", "locate": "0123"} {
		end := start(t.Context(), programs{}, command, "--help")
		require.Equal(t, exitFine, end.code)
		var got strings.Builder
		for _, match := range regexp.MustCompile(`(?m)^  (\d)  \S`).FindAllStringSubmatch(end.stdout, -1) {
			got.WriteString(match[1])
		}
		require.Equal(t, codes, got.String(), end.stdout)
		require.Contains(t, end.stdout, "NSM_ADMIN_LISTEN_ON")
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		end := start(t.Context(), programs{}, "completion", shell)
		require.Equal(t, exitFine, end.code, end.stderr)
		require.Contains(t, end.stdout, "registry-lb")
	}
	for args, want := range map[string]string{
		"members -o ":        "table\njson\n:4\n",
		"locate -o ":         "table\njson\n:4\n",
		"locate ":            ":4\n",
		"status ":            ":4\n",
		"status --admin ":    ":4\n",
		"status --interval ": ":4\n",
		"me":                 "members\tShow the members of a registry-lb that runs\n:4\n",
	} {
		end := start(t.Context(), programs{}, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		require.Equal(t, exitFine, end.code, args)
		require.Equal(t, want, end.stdout, args)
	}
}

// TestReadmeAsks runs the commands of README by which one asks, those in a cluster as if it were here.
func TestReadmeAsks(t *testing.T) {
	t.Setenv("NSM_ADMIN_LISTEN_ON", "tcp://"+serveAdmin(t, view{}))
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	section := regexp.MustCompile("(?s)\n## Ask it\n.*?\n## ").FindString(string(readme))
	block := regexp.MustCompile("(?s)\n```\n(.*?)```\n").FindStringSubmatch(section)
	require.NotNil(t, block)
	ran := make(map[string]bool)
	for line := range strings.Lines(block[1]) {
		command := regexp.MustCompile(`^(?:kubectl exec -n \S+ deploy/registry-lb -- /)?registry-lb (.*?)(?: +#.*)?\n$`).FindStringSubmatch(line)
		require.NotNil(t, command, line)
		args := strings.Fields(command[1])
		end := start(t.Context(), programs{}, args...)
		require.Equal(t, exitFine, end.code, "%s: %s", line, end.stderr)
		require.NotEmpty(t, end.stdout)
		ran[args[0]] = true
	}
	require.Equal(t, map[string]bool{"members": true, "status": true, "locate": true}, ran)
}
