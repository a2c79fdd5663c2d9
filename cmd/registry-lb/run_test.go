// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/networkservicemesh/registry-lb/internal/config"
	"github.com/networkservicemesh/registry-lb/internal/demo"
)

// outcome is what one run came to.
type outcome struct {
	code           int
	stdout, stderr string
}

func start(ctx context.Context, p programs, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	code := run(ctx, p, args, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// serving is a program that only serves.
func serving(serve func(context.Context, *config.Config, *zap.Logger) error) programs {
	return programs{serve: serve}
}

// logLines reads the log back, and fails if there is anything else.
func logLines(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(text) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields), line)
		all = append(all, fields)
	}
	return all
}

func TestServeGetsTheConfigurationAndTheLog(t *testing.T) {
	t.Setenv("NSM_TLS", "insecure")
	t.Setenv("NSM_BACKENDS", "static://a:1")
	t.Setenv("NSM_BACKEND", "static://b:1")
	var got *config.Config
	end := start(t.Context(), serving(func(_ context.Context, cfg *config.Config, l *zap.Logger) error {
		got = cfg
		l.Info("mine")
		log.L().Info("of the SDK")
		return nil
	}))
	require.Equal(t, exitFine, end.code)
	require.Empty(t, end.stdout)
	require.Equal(t, "static://a:1", got.Backends.String())
	lines := logLines(t, end.stderr)
	require.Len(t, lines, 5)
	require.Contains(t, lines[0]["msg"], "did you mean NSM_BACKENDS?")
	require.Equal(t, "starting", lines[1]["msg"])
	require.Equal(t, "static://a:1", lines[1]["backends"])
	require.Equal(t, "tcp://:5002", lines[1]["listen_on"])
	require.Equal(t, "mine", lines[2]["msg"])
	require.Equal(t, "of the SDK", lines[3]["msg"])
	require.Equal(t, "stopped", lines[4]["msg"])
}

func TestBadConfigurationStopsTheStart(t *testing.T) {
	t.Setenv("NSM_TLS", "insecure")
	t.Setenv("NSM_STORE", "etcd")
	t.Setenv("NSM_LOG_LEVEL", "loud")
	t.Setenv("NSM_BACKEND", "static://b:1")
	end := start(t.Context(), serving(func(context.Context, *config.Config, *zap.Logger) error {
		return errors.New("must not run")
	}))
	require.Equal(t, exitUsage, end.code)
	require.Empty(t, end.stdout)
	require.Equal(t, `registry-lb: NSM_STORE="etcd": it is one of shared, partitioned (example: NSM_STORE=shared)
registry-lb: NSM_LOG_LEVEL="loud": it is one of TRACE, DEBUG, INFO, WARN, ERROR, FATAL (example: NSM_LOG_LEVEL=INFO)
registry-lb: warning: NSM_BACKEND is not a variable of registry-lb and is ignored; did you mean NSM_BACKENDS?
`, end.stderr)
}

func TestHowServingEnds(t *testing.T) {
	rows := []struct {
		because string
		asked   bool
		err     error
		code    int
		last    string
	}{
		{"it was asked to stop and did", true, nil, exitFine, "stopped"},
		{"it was asked to stop and says so", true, fmt.Errorf("serve: %w", context.Canceled), exitFine, "stopped"},
		{"it failed", false, errors.New("port\nis taken"), exitFailure, "failed"},
		{"it failed while it was stopping", true, errors.New("cannot close"), exitFailure, "failed"},
		{"something of its own was cancelled", false, context.Canceled, exitFailure, "failed"},
	}
	for _, row := range rows {
		t.Run(row.because, func(t *testing.T) {
			t.Setenv("NSM_TLS", "insecure")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end := start(ctx, serving(func(context.Context, *config.Config, *zap.Logger) error {
				if row.asked {
					cancel()
				}
				return row.err
			}))
			require.Equal(t, row.code, end.code, end.stderr)
			lines := logLines(t, end.stderr)
			last := lines[len(lines)-1]
			require.Equal(t, row.last, last["msg"])
			if row.code == exitFailure {
				require.Equal(t, "error", last["level"])
				require.Equal(t, row.err.Error(), last["error"])
			}
		})
	}
}

func TestDemo(t *testing.T) {
	var got demo.Options
	shown := programs{demo: func(_ context.Context, o demo.Options) error {
		got = o
		log.L().Info("of the SDK")
		_, err := io.WriteString(o.Out, "shown")
		return err
	}}
	require.Equal(t, outcome{exitFine, "shown", ""}, start(t.Context(), shown, "demo"))
	require.Equal(t, 200, got.NSEs)
	require.False(t, got.Terminal, "a buffer is no terminal")
	require.False(t, got.Bold)

	end := start(t.Context(), shown, "demo", "--nses", "7", "-v")
	require.Equal(t, exitFine, end.code)
	require.Equal(t, 7, got.NSEs)
	require.Contains(t, end.stderr, "of the SDK")

	require.Equal(t, outcome{exitUsage, "", "registry-lb: --nses 0: at least one NSE is needed\n"},
		start(t.Context(), shown, "demo", "--nses", "0"))

	failing := programs{demo: func(context.Context, demo.Options) error { return errors.New("no luck") }}
	require.Equal(t, outcome{exitFailure, "", "registry-lb: no luck\n"}, start(t.Context(), failing, "demo"))
}

func TestHelpShowsTheVariables(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"help"}} {
		end := start(t.Context(), programs{}, args...)
		require.Equal(t, exitFine, end.code)
		require.Empty(t, end.stderr)
		require.Contains(t, end.stdout, "NSM_LISTEN_ON")
		require.Contains(t, end.stdout, "k8s:///registry-k8s:registry")
		for _, command := range []string{"demo", "version"} {
			require.Contains(t, end.stdout, "\n  "+command+" ")
		}
	}
}

func TestCommandLineThatCannotBeRead(t *testing.T) {
	for _, args := range [][]string{{"--loud"}, {"sreve"}, {"version", "x"}, {"demo", "--fast"}, {"-x"}} {
		end := start(t.Context(), programs{}, args...)
		require.Equal(t, exitUsage, end.code, args)
		require.Empty(t, end.stdout)
		require.Contains(t, end.stderr, args[len(args)-1])
		for line := range strings.Lines(end.stderr) {
			require.True(t, strings.HasPrefix(line, "registry-lb: "), line)
		}
	}
}

func TestVersion(t *testing.T) {
	end := start(t.Context(), programs{}, "version")
	require.Equal(t, exitFine, end.code)
	require.Regexp(t, `^registry-lb \S+ \((commit .*, )?go1\.\S+, \w+/\w+\)\n$`, end.stdout)
	require.True(t, strings.HasPrefix(describeBuild("v1.2.3"), "v1.2.3 ("))
}

func TestCommitOfABuild(t *testing.T) {
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "abc"}
	require.Empty(t, describeCommit(nil))
	require.Equal(t, "commit abc, ", describeCommit([]debug.BuildSetting{revision, {Key: "vcs.modified", Value: "false"}}))
	require.Equal(t, "commit abc with changes, ", describeCommit([]debug.BuildSetting{revision, {Key: "vcs.modified", Value: "true"}}))
}
