// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// few is enough NSEs for each figure to be clear, and spares the machine under the race detector.
const few = 24

// shown is what a whole run prints, each line a pattern in which runs of spaces count as one.
var shown = []string{
	`registry-lb demo: real registries and real clients of NSM in one process, on loopback`,
	``,
	`24 NSEs and 4 registries\. Clients make each call on a connection of its own, as in NSM\.`,
	` plain Service: registered, looked up, refreshed and unregistered 24 NSEs in \d+\.\d\d s`,
	` registry-lb: registered, looked up, refreshed and unregistered 24 NSEs in \d+\.\d\d s`,
	``,
	` of 24 NSEs plain Service registry-lb`,
	` not found by name [1-9]\d* 0`,
	` in two registries after a refresh [1-9]\d* 0`,
	` left behind after Unregister [1-9]\d* 0`,
	``,
	`A registry joins and another one leaves, while 24 NSEs live and are refreshed every 3\.00 s\.`,
	` 127\.0\.0\.1:\d+ joined: the last NSE was found after \d+\.\d\d s, and refreshed after \d+\.\d\d s`,
	``,
	` \$ registry-lb locate nse-17 --admin http://127\.0\.0\.1:\d+`,
	` NSE MEMBER REASON SINCE EXPIRES`,
	` nse-17 127\.0\.0\.1:\d+ holder \S+Z \(\S+ ago\) (in \S+|\S+ ago)`,
	``,
	` 127\.0\.0\.1:\d+ left: the last NSE was found after \d+\.\d\d s, and refreshed after \d+\.\d\d s`,
	``,
	` \$ registry-lb locate nse-17 --admin http://127\.0\.0\.1:\d+`,
	` NSE MEMBER REASON SINCE EXPIRES`,
	` nse-17 127\.0\.0\.1:\d+ holder \S+Z \(\S+ ago\) (in \S+|\S+ ago)`,
	``,
	` all unregistered: 0 of 24 left behind`,
	``,
	` of 24 NSEs stayed moved to newcomer moved, theirs left moved needlessly lost`,
	` 127\.0\.0\.1:\d+ joined \d+ \d+ 0 0 0`,
	` 127\.0\.0\.1:\d+ left \d+ 0 \d+ 0 0`,
	``,
	`Behind a plain Service [1-9]\d* of 24 NSEs were not found and [1-9]\d* were left behind; behind registry-lb none\.`,
	`Of 24 living NSEs \d+ moved when a registry joined and \d+ when one left, none needlessly; none was lost\.`,
	`Next: "registry-lb --help" shows how to put it in front of your own registries, and how to ask it\.`,
}

func TestWhatIsShown(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, Run(t.Context(), Options{Out: &out, NSEs: few}))
	text := strings.TrimSuffix(out.String(), "\n")
	require.NotContains(t, text, "\r")
	require.NotContains(t, text, "\x1b")
	lines := strings.Split(regexp.MustCompile(` +`).ReplaceAllString(text, " "), "\n")
	require.Len(t, lines, len(shown), text)
	for i, line := range lines {
		require.Regexp(t, "^"+shown[i]+"$", line)
	}

	leaver := regexp.MustCompile(`(?m)^ (\S+) left:`).FindStringSubmatch(strings.Join(lines, "\n"))[1]
	found := regexp.MustCompile(`nse-17 (127\S+) holder (\S+) `).FindAllStringSubmatch(strings.Join(lines, "\n"), -1)
	require.Equal(t, leaver, found[0][1], "nse-17 is at the registry that leaves")
	require.NotEqual(t, leaver, found[1][1], "and then elsewhere")
	before, err := time.Parse(time.RFC3339, found[0][2])
	require.NoError(t, err)
	after, err := time.Parse(time.RFC3339, found[1][2])
	require.NoError(t, err)
	// There is a refresh of all NSEs between.
	require.True(t, after.After(before), "since when is about where it is now")
}

func TestBrokenPromisesAreErrors(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := Run(t.Context(), Options{Out: &out, NSEs: few, bypass: true})
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 3)
	require.Regexp(t, `^promise broken: NSEs not found by name behind registry-lb: [1-9]\d* of 24, promised is 0$`, lines[0])
	require.Regexp(t, `^promise broken: NSEs with two copies after a refresh behind registry-lb: [1-9]\d* of 24, promised is 0$`, lines[1])
	require.Regexp(t, `^promise broken: NSEs left behind after Unregister behind registry-lb: [1-9]\d* of 24, promised is 0$`, lines[2])
	require.Contains(t, out.String(), "stayed", "the figures are shown all the same")
	require.NotContains(t, out.String(), "none was lost")
}

// onText is a writer that calls then once it has been given a text.
type onText struct {
	mu   sync.Mutex
	all  bytes.Buffer
	text string
	then func()
}

func (w *onText) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Contains(w.all.String(), w.text)
	w.all.Write(p)
	if !before && strings.Contains(w.all.String(), w.text) {
		w.then()
	}
	return len(p), nil
}

func TestItStopsWhenToldTo(t *testing.T) {
	t.Parallel()
	rows := []struct{ while, text string }{
		{"nothing has begun", "registry-lb demo"},
		{"NSEs register behind a plain Service", "plain Service: registered "},
		{"NSEs are refreshed behind registry-lb", "registry-lb: refreshed "},
		{"a registry is about to join", "joined: waiting"},
		{"NSEs are awaited after a registry has joined", "joined: found and refreshed since"},
	}
	for _, row := range rows {
		t.Run(row.while, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var stopped time.Time
			asked := errors.New("asked to")
			out := &onText{text: row.text, then: func() {
				stopped = time.Now()
				cancel(asked)
			}}
			err := Run(ctx, Options{Out: out, Terminal: true, NSEs: 8})
			require.ErrorIs(t, err, asked)
			require.EqualError(t, err, "the demo was stopped: asked to")
			require.Less(t, time.Since(stopped), 3*time.Second)
		})
	}
}

// failing is a writer that cannot write.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestReportKeepsTheFirstError(t *testing.T) {
	r := newReport(failing{}, few, false)
	r.opening()
	r.lives(&results{})
	require.ErrorIs(t, r.err, os.ErrClosed)
}

func TestHeadingsAreBoldOnlyIfWanted(t *testing.T) {
	var plain, bold bytes.Buffer
	newReport(&plain, few, false).heading("%d", 1)
	newReport(&bold, few, true).heading("%d", 1)
	require.Equal(t, "1\n", plain.String())
	require.Equal(t, "\x1b[1m1\x1b[0m\n", bold.String())
}
