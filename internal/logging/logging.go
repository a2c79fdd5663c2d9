// SPDX-License-Identifier: Apache-2.0

// Package logging makes the one log of the process, and sends there what the libraries in it have to say.
package logging

import (
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Format is how a line of the log looks.
type Format string

const (
	// JSON is an object a line, for machines.
	JSON Format = "json"
	// Console is text, for people.
	Console Format = "console"
)

// UnmarshalText reads the name of a format.
func (f *Format) UnmarshalText(text []byte) error {
	switch s := Format(strings.ToLower(strings.TrimSpace(string(text)))); s {
	case JSON, Console:
		*f = s
		return nil
	default:
		return fmt.Errorf("it is one of %s, %s", JSON, Console)
	}
}

// Of lines with the same level and message, the first sampleFirst in each second are written and then every
// sampleThereafter-th: a fault that each call meets must not fill the disk, and the remaining lines still show how often
// it is met. Lines at TRACE are not sampled; who asks for them wants them all.
const (
	sampleTick       = time.Second
	sampleFirst      = 100
	sampleThereafter = 1000
)

// New returns a logger that writes to w, which must be safe for concurrent use (see zapcore.Lock), and the level that it
// obeys. Use SetLevel to change the level.
//
// Tokens never reach w: whatever looks like one is cut out of each line, wherever it stands in it.
func New(w zapcore.WriteSyncer, format Format, level Level) (*zap.Logger, zap.AtomicLevel) {
	enc := zap.NewProductionEncoderConfig()
	enc.TimeKey = "time"
	enc.MessageKey = "msg"
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	enc.EncodeLevel = encodeLevel
	encoder := zapcore.NewJSONEncoder(enc)
	if format == Console {
		enc.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	at := zap.NewAtomicLevelAt(level.Zap())
	core := zapcore.NewSamplerWithOptions(zapcore.NewCore(encoder, redactor{w}, at), sampleTick, sampleFirst, sampleThereafter)
	return zap.New(core, zap.ErrorOutput(w)), at
}
