// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"encoding/json"
	"fmt"

	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// SDK returns a logger for elements of the NSM SDK that writes to l. Trace lines come out one level below debug. Fatal
// ends the process, as the SDK expects.
func SDK(l *zap.Logger) log.Logger { return &sdkLogger{zap: l} }

// sdkLogger is used by pointer: the SDK compares loggers.
type sdkLogger struct {
	zap *zap.Logger
}

// print formats v only if it is going to be written: the SDK hands over whole requests.
func (s *sdkLogger) print(level zapcore.Level, v []any) {
	if s.zap.Core().Enabled(level) {
		s.zap.Log(level, fmt.Sprint(v...))
	}
}

func (s *sdkLogger) printf(level zapcore.Level, format string, v []any) {
	if s.zap.Core().Enabled(level) {
		s.zap.Log(level, fmt.Sprintf(format, v...))
	}
}

func (s *sdkLogger) Trace(v ...any)                 { s.print(TraceLevel.Zap(), v) }
func (s *sdkLogger) Tracef(format string, v ...any) { s.printf(TraceLevel.Zap(), format, v) }
func (s *sdkLogger) Debug(v ...any)                 { s.print(zapcore.DebugLevel, v) }
func (s *sdkLogger) Debugf(format string, v ...any) { s.printf(zapcore.DebugLevel, format, v) }
func (s *sdkLogger) Info(v ...any)                  { s.print(zapcore.InfoLevel, v) }
func (s *sdkLogger) Infof(format string, v ...any)  { s.printf(zapcore.InfoLevel, format, v) }
func (s *sdkLogger) Warn(v ...any)                  { s.print(zapcore.WarnLevel, v) }
func (s *sdkLogger) Warnf(format string, v ...any)  { s.printf(zapcore.WarnLevel, format, v) }
func (s *sdkLogger) Error(v ...any)                 { s.print(zapcore.ErrorLevel, v) }
func (s *sdkLogger) Errorf(format string, v ...any) { s.printf(zapcore.ErrorLevel, format, v) }

// Fatal is not asked whether it is enabled: it ends the process in any case.
func (s *sdkLogger) Fatal(v ...any)                 { s.zap.Fatal(fmt.Sprint(v...)) }
func (s *sdkLogger) Fatalf(format string, v ...any) { s.zap.Fatal(fmt.Sprintf(format, v...)) }

// Object logs v as JSON, at info as all loggers of the SDK do.
func (s *sdkLogger) Object(k, v any) {
	if !s.zap.Core().Enabled(zapcore.InfoLevel) {
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		text = fmt.Append(nil, v)
	}
	s.Infof("%v=%s", k, text)
}

// WithField returns a logger that adds the field to each line.
func (s *sdkLogger) WithField(key, value any) log.Logger {
	return &sdkLogger{zap: s.zap.With(zap.Any(fmt.Sprint(key), value))}
}
