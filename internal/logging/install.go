// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"io"

	"github.com/go-logr/logr"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/sirupsen/logrus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zapgrpc"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
)

// Install sends to l what the libraries in this process log: the NSM SDK, gRPC (errors, and warnings at DEBUG: it warns of
// each attempt to connect to a member, of which the proxy says once that it does not answer) and client-go. It
// changes state of the whole process that is not safe for concurrent use: main calls it, once, before anything else
// runs. level is the one that came with l.
func Install(l *zap.Logger, level zap.AtomicLevel) {
	log.SetGlobalLogger(SDK(l.Named("nsm")))

	logrus.SetOutput(io.Discard)
	logrus.StandardLogger().ReplaceHooks(make(logrus.LevelHooks))
	logrus.AddHook(logrusHook{l.Named("nsm")})

	weighty := zap.LevelEnablerFunc(func(at zapcore.Level) bool {
		return l.Core().Enabled(at) && (at >= zapcore.ErrorLevel || at == zapcore.WarnLevel && l.Core().Enabled(zapcore.DebugLevel))
	})
	grpclog.SetLoggerV2(zapgrpc.NewLogger(l.Named("grpc").WithOptions(zap.IncreaseLevel(weighty))))

	kubernetesLog := logr.New(klogSink{l.Named("kubernetes").Sugar()})
	klog.SetLoggerWithOptions(kubernetesLog, klog.ContextualLogger(true))

	SetLevel(level, Level(level.Level()))
}

// SetLevel changes the level of a logger that was installed, and how much the NSM SDK does for its own lines: at DEBUG
// and below it logs what each element of a chain is given, which costs more than the call itself. It may be called at
// any time.
func SetLevel(level zap.AtomicLevel, l Level) {
	level.SetLevel(l.Zap())
	logrus.SetLevel(l.logrus())
	log.EnableTracing(l <= DebugLevel)
}
