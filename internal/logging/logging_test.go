// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"pgregory.net/rapid"
)

// sink keeps what is written.
type sink struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *sink) Sync() error { return nil }

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

type line struct {
	Level  string `json:"level"`
	Msg    string `json:"msg"`
	Logger string `json:"logger"`
	Time   time.Time
	fields map[string]any
}

// lines reads back what was written as JSON.
func (s *sink) lines(t *testing.T) []line {
	t.Helper()
	var all []line
	for text := range strings.Lines(s.String()) {
		var l line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		require.NoError(t, json.Unmarshal([]byte(text), &l.fields), text)
		all = append(all, l)
	}
	return all
}

func TestLevelsByName(t *testing.T) {
	rows := map[string]Level{
		"TRACE": TraceLevel, "trace": TraceLevel, "Debug": DebugLevel, "INFO": InfoLevel, "WARN": WarnLevel,
		"warning": WarnLevel, "\tERROR\n": ErrorLevel, "FATAL": FatalLevel, "panic": FatalLevel,
	}
	for text, want := range rows {
		var l Level
		require.NoError(t, l.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, l, text)
		require.Equal(t, want, fromLogrus(want.logrus()), "there and back")
		var again Level
		require.NoError(t, again.UnmarshalText([]byte(want.String())))
		require.Equal(t, want, again)
	}
	for _, text := range []string{"", "loud", "1"} {
		require.Error(t, new(Level).UnmarshalText([]byte(text)), text)
	}
}

func TestEachLevelShowsItselfAndWhatIsWorse(t *testing.T) {
	all := []Level{TraceLevel, DebugLevel, InfoLevel, WarnLevel, ErrorLevel}
	for i, lowest := range all {
		var out sink
		log, _ := New(&out, JSON, lowest)
		for _, l := range all {
			log.Log(l.Zap(), l.String())
		}
		got := out.lines(t)
		require.Len(t, got, len(all)-i)
		for j, l := range all[i:] {
			require.Equal(t, l.String(), got[j].Msg)
			require.Equal(t, strings.ToLower(l.String()), got[j].Level)
		}
	}
}

func TestFormats(t *testing.T) {
	var out sink
	log, _ := New(&out, JSON, InfoLevel)
	log.Info("hello", zap.Duration("for", time.Second), zap.Error(errors.New("a\nb")))
	got := out.lines(t)[0]
	require.Equal(t, "1s", got.fields["for"])
	require.Equal(t, "a\nb", got.fields["error"])
	require.WithinDuration(t, time.Now(), got.Time, time.Minute)

	var text sink
	log, _ = New(&text, Console, InfoLevel)
	log.Info("hello", zap.String("who", "you"))
	require.Regexp(t, `^\d\d:\d\d:\d\d\.\d{3}\tinfo\thello\t\{"who": "you"\}\n$`, text.String())

	require.Error(t, new(Format).UnmarshalText([]byte("xml")))
}

func TestFloodIsSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sink
		log, _ := New(&out, JSON, InfoLevel)
		for range 10 * sampleThereafter {
			log.Error("again")
		}
		log.Error("something else")
		require.Len(t, out.lines(t), sampleFirst+9+1)

		<-time.After(2 * sampleTick)
		log.Error("again")
		require.Len(t, out.lines(t), sampleFirst+9+2, "the next second begins anew")
	})
}

const token = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzcGlmZmU6Ly9hL2IifQ.c2ln-_bmF0dXJl"

func TestTokensAreCutOut(t *testing.T) {
	rows := []struct {
		where string
		write func(*zap.Logger)
	}{
		{"in the message", func(l *zap.Logger) { l.Info("token " + token) }},
		{"in a field", func(l *zap.Logger) { l.Info("m", zap.String("f", token)) }},
		{"in an error", func(l *zap.Logger) { l.Info("m", zap.Error(errors.New("bad: "+token+"."))) }},
		{"in a value of any kind", func(l *zap.Logger) { l.Info("m", zap.Any("f", map[string][]string{"a": {"x", token}})) }},
		{"in a field of the logger", func(l *zap.Logger) { l.With(zap.String("f", token)).Info("m") }},
		{"in a line of the SDK", func(l *zap.Logger) { SDK(l).WithField("a", token).Object("path", []string{token, token}) }},
		{"without a signature", func(l *zap.Logger) { l.Info(strings.TrimSuffix(token, "c2ln-_bmF0dXJl")) }},
	}
	for _, row := range rows {
		t.Run(row.where, func(t *testing.T) {
			for _, format := range []Format{JSON, Console} {
				var out sink
				log, _ := New(&out, format, InfoLevel)
				row.write(log)
				require.Contains(t, out.String(), "[token]")
				require.NotContains(t, out.String(), "eyJ")
				require.NotContains(t, out.String(), "c2ln")
				require.Equal(t, 1, strings.Count(out.String(), "\n"))
			}
		})
	}
}

func TestLinesWithoutTokensAreWrittenAsTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-xzA-Z0-9. "{}\\]*`).Draw(t, "text") // without y: no token
		var out sink
		n, err := redactor{&out}.Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, len(text), n)
		require.Equal(t, text, out.String())
	})
	var out sink
	_, err := redactor{&out}.Write([]byte("keyJam is no token, eyJ.a is none either: it has no header"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(out.String(), "keyJam is no token"))
}

// broken is a sink that takes nothing.
type broken struct{ sink }

func (*broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestAnErrorOfTheSinkComesBack(t *testing.T) {
	for _, text := range []string{"no token", token} {
		_, err := redactor{zapcore.Lock(new(broken))}.Write([]byte(text))
		require.EqualError(t, err, "disk full")
	}
}
