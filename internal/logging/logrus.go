// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"github.com/sirupsen/logrus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logrusHook takes over what is written to logrus: elements of the NSM SDK make such a logger on their own where their
// context has none.
type logrusHook struct {
	zap *zap.Logger
}

func (h logrusHook) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements logrus.Hook. Ending the process, at fatal, is left to logrus, which does it after its hooks.
func (h logrusHook) Fire(entry *logrus.Entry) error {
	level := min(fromLogrus(entry.Level).Zap(), zapcore.ErrorLevel)
	checked := h.zap.Check(level, entry.Message)
	if checked == nil {
		return nil
	}
	fields := make([]zap.Field, 0, len(entry.Data))
	for k, v := range entry.Data {
		fields = append(fields, zap.Any(k, v))
	}
	checked.Write(fields...)
	return nil
}
