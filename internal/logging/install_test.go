// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"context"
	"errors"
	"testing"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/core/next"
	"github.com/networkservicemesh/sdk/pkg/registry/core/trace"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
)

// install must not run in parallel with other tests: it is about the whole process.
func install(t *testing.T, level Level) (*sink, zap.AtomicLevel) {
	t.Helper()
	out := new(sink)
	l, at := New(out, JSON, level)
	Install(l, at)
	return out, at
}

func TestSDKLinesArriveAtTheirLevel(t *testing.T) {
	out, _ := install(t, TraceLevel)
	l := log.L().WithField("id", 7)
	l.Trace("a", 1, 2)
	l.Tracef("a %d", 1)
	l.Debug("b")
	l.Debugf("b %d", 1)
	l.Info("c")
	l.Infof("c %d", 1)
	l.Warn("d")
	l.Warnf("d %d", 1)
	l.Error(errors.New("e"))
	l.Errorf("e %d", 1)
	l.Object("f", map[string]int{"g": 1})
	l.Object("f", func() {})

	want := []struct{ level, msg string }{
		{"trace", "a1 2"}, {"trace", "a 1"}, {"debug", "b"}, {"debug", "b 1"}, {"info", "c"}, {"info", "c 1"},
		{"warn", "d"}, {"warn", "d 1"}, {"error", "e"}, {"error", "e 1"}, {"info", `f={"g":1}`},
	}
	got := out.lines(t)
	require.Len(t, got, len(want)+1)
	for i, w := range want {
		require.Equal(t, w.level, got[i].Level)
		require.Equal(t, w.msg, got[i].Msg)
		require.Equal(t, "nsm", got[i].Logger)
		require.InEpsilon(t, 7, got[i].fields["id"], 0)
	}
	require.Contains(t, got[len(want)].Msg, "f=0x", "what has no JSON is printed")
}

// loud counts how often it is formatted.
type loud struct{ times int }

func (l *loud) String() string {
	l.times++
	return "loud"
}

func (l *loud) MarshalJSON() ([]byte, error) { return []byte(`"` + l.String() + `"`), nil }

func TestSDKLinesBelowTheLevelCostNothing(t *testing.T) {
	out, at := install(t, InfoLevel)
	request := new(loud)
	log.L().Debug(request)
	log.L().Tracef("%s", request)
	require.Zero(t, request.times)
	SetLevel(at, ErrorLevel)
	log.L().Object("request", request)
	require.Zero(t, request.times)
	require.Empty(t, out.String())
}

// speaker is a chain element that logs.
type speaker struct {
	registry.NetworkServiceEndpointRegistryServer
}

func (s speaker) Register(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*registry.NetworkServiceEndpoint, error) {
	log.FromContext(ctx).Info("spoken")
	return next.NetworkServiceEndpointRegistryServer(ctx).Register(ctx, nse)
}

func TestElementsOfTheSDKLogHereWhateverLoggerTheyPick(t *testing.T) {
	chain := func() registry.NetworkServiceEndpointRegistryServer {
		return next.NewNetworkServiceEndpointRegistryServer(
			trace.NewNetworkServiceEndpointRegistryServer(speaker{}))
	}
	register := func(t *testing.T) {
		t.Helper()
		_, err := chain().Register(t.Context(), &registry.NetworkServiceEndpoint{Name: "nse-1"})
		require.NoError(t, err)
	}
	for _, level := range []Level{TraceLevel, DebugLevel, InfoLevel, WarnLevel} {
		t.Run(level.String(), func(t *testing.T) {
			out, _ := install(t, level)
			register(t)
			var spoken, traced int
			for _, l := range out.lines(t) {
				if l.Level == "info" {
					spoken++
				}
				if l.Level == "trace" {
					traced++
				}
			}
			if level <= InfoLevel {
				require.Equal(t, 1, spoken, out.String())
			} else {
				require.Zero(t, spoken, out.String())
			}
			if level == TraceLevel {
				require.NotZero(t, traced)
				require.Contains(t, out.String(), "nse-1", "the request is shown")
			} else {
				require.Zero(t, traced)
				require.NotContains(t, out.String(), "nse-1")
			}
		})
	}
}

func TestLevelCanBeChanged(t *testing.T) {
	out, at := install(t, InfoLevel)
	require.False(t, log.IsTracingEnabled())
	SetLevel(at, DebugLevel)
	require.True(t, log.IsTracingEnabled())
	require.Equal(t, logrus.DebugLevel, logrus.GetLevel())
	log.L().Debug("seen")
	SetLevel(at, InfoLevel)
	require.False(t, log.IsTracingEnabled())
	log.L().Debug("not seen")
	require.Len(t, out.lines(t), 1)
}

func TestLogrusLinesArrive(t *testing.T) {
	out, _ := install(t, InfoLevel)
	logrus.WithField("a", "b").Warn("from logrus")
	logrus.Debug("not seen")
	require.Panics(t, func() { logrus.Panic("end") })
	got := out.lines(t)
	require.Len(t, got, 2)
	require.Equal(t, "warn", got[0].Level)
	require.Equal(t, "from logrus", got[0].Msg)
	require.Equal(t, "b", got[0].fields["a"])
	require.Equal(t, "error", got[1].Level, "what comes of it is left to logrus")

	again, _ := install(t, InfoLevel)
	logrus.Info("once")
	require.Len(t, again.lines(t), 1)
	require.Len(t, out.lines(t), 2, "a logger that was replaced gets nothing more")
}

func TestGRPCWarnsAtDebug(t *testing.T) {
	for _, level := range []Level{TraceLevel, DebugLevel, InfoLevel, WarnLevel, ErrorLevel} {
		out, _ := install(t, level)
		l := grpclog.Component("test")
		l.Info("too much")
		l.Warning("warned")
		l.Error("failed")
		got := out.lines(t)
		if level > DebugLevel {
			require.Len(t, got, 1)
			require.Equal(t, "error", got[0].Level)
			continue
		}
		require.Len(t, got, 2)
		require.Equal(t, "warn", got[0].Level)
		require.Equal(t, "grpc", got[0].Logger)
		require.Contains(t, got[0].Msg, "warned")
	}
}

func TestKubernetesLinesArrive(t *testing.T) {
	out, at := install(t, InfoLevel)
	klog.Infof("plain %d", 1)
	klog.ErrorS(errors.New("boom"), "structured", "pod", "a")
	klog.Background().WithName("reflector").WithValues("b", 2).Info("contextual")
	klog.Background().V(1).Info("verbose")
	got := out.lines(t)
	require.Len(t, got, 3)
	require.Equal(t, "plain 1", got[0].Msg)
	require.Equal(t, "info", got[0].Level)
	require.Equal(t, "kubernetes", got[0].Logger)
	require.Equal(t, "error", got[1].Level)
	require.Equal(t, "boom", got[1].fields["error"])
	require.Equal(t, "a", got[1].fields["pod"])
	require.Equal(t, "kubernetes.reflector", got[2].Logger)
	require.InEpsilon(t, 2, got[2].fields["b"], 0)

	SetLevel(at, DebugLevel)
	klog.Background().V(1).Info("verbose")
	require.Equal(t, "debug", out.lines(t)[3].Level)
}
