// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"github.com/go-logr/logr"
	"go.uber.org/zap"
)

// klogSink takes over what client-go writes. Its verbose lines (V(1) and above, which print requests to the API server)
// are debug lines here.
type klogSink struct {
	zap *zap.SugaredLogger
}

func (s klogSink) Init(logr.RuntimeInfo) {}

func (s klogSink) Enabled(v int) bool { return s.zap.Desugar().Core().Enabled(klogLevel(v).Zap()) }

func (s klogSink) Info(v int, msg string, keysAndValues ...any) {
	s.zap.Logw(klogLevel(v).Zap(), msg, keysAndValues...)
}

func (s klogSink) Error(err error, msg string, keysAndValues ...any) {
	s.zap.Errorw(msg, append([]any{"error", err}, keysAndValues...)...)
}

func (s klogSink) WithValues(keysAndValues ...any) logr.LogSink {
	return klogSink{s.zap.With(keysAndValues...)}
}

func (s klogSink) WithName(name string) logr.LogSink { return klogSink{s.zap.Named(name)} }

func klogLevel(v int) Level {
	if v > 0 {
		return DebugLevel
	}
	return InfoLevel
}
