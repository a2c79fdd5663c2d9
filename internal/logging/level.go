// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"fmt"
	"strings"

	"github.com/sirupsen/logrus"
	"go.uber.org/zap/zapcore"
)

// Level is the lowest level that is logged, in the words of the other NSM commands.
type Level zapcore.Level

const (
	// TraceLevel is below all levels that zap knows: what single calls carry, through every chain element of the SDK.
	TraceLevel = Level(zapcore.DebugLevel - 1)
	// DebugLevel is for who looks for a fault.
	DebugLevel = Level(zapcore.DebugLevel)
	// InfoLevel is for what happens rarely and on its own: start, members that come and go, stop.
	InfoLevel = Level(zapcore.InfoLevel)
	// WarnLevel is for what works but should not be so.
	WarnLevel = Level(zapcore.WarnLevel)
	// ErrorLevel is for what does not work.
	ErrorLevel = Level(zapcore.ErrorLevel)
	// FatalLevel is for what ends the process.
	FatalLevel = Level(zapcore.FatalLevel)
)

// Zap returns the level in zap's terms. Trace is one below zapcore.DebugLevel.
func (l Level) Zap() zapcore.Level { return zapcore.Level(l) }

// String returns the level as it is written in the environment.
func (l Level) String() string { return strings.ToUpper(levelName(l.Zap())) }

// UnmarshalText reads a level by the names that logrus has for it, as the other NSM commands do; case does not matter.
func (l *Level) UnmarshalText(text []byte) error {
	parsed, err := logrus.ParseLevel(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("it is one of TRACE, DEBUG, INFO, WARN, ERROR, FATAL")
	}
	*l = fromLogrus(parsed)
	return nil
}

// fromLogrus maps panic to fatal: this process makes no difference between them.
func fromLogrus(l logrus.Level) Level {
	switch l {
	case logrus.TraceLevel:
		return TraceLevel
	case logrus.DebugLevel:
		return DebugLevel
	case logrus.InfoLevel:
		return InfoLevel
	case logrus.WarnLevel:
		return WarnLevel
	case logrus.ErrorLevel:
		return ErrorLevel
	case logrus.FatalLevel, logrus.PanicLevel:
		return FatalLevel
	default:
		return InfoLevel
	}
}

func (l Level) logrus() logrus.Level {
	switch {
	case l <= TraceLevel:
		return logrus.TraceLevel
	case l == DebugLevel:
		return logrus.DebugLevel
	case l == InfoLevel:
		return logrus.InfoLevel
	case l == WarnLevel:
		return logrus.WarnLevel
	case l == ErrorLevel:
		return logrus.ErrorLevel
	default:
		return logrus.FatalLevel
	}
}

// levelName gives trace a name, which zap does not.
func levelName(l zapcore.Level) string {
	if l < zapcore.DebugLevel {
		return "trace"
	}
	return l.String()
}

func encodeLevel(l zapcore.Level, enc zapcore.PrimitiveArrayEncoder) { enc.AppendString(levelName(l)) }
