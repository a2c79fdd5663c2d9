// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/internal/admin"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// watch shows the answers to q until there have been so many.
func watch(t *testing.T, o Options, answers []http.Handler, q Question) (outcome, Target) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked atomic.Int64
	o.Target = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(asked.Add(1)) - 1
		if n == len(answers) {
			cancel()
			return
		}
		answers[n].ServeHTTP(w, r)
	}))
	o.Interval = time.Millisecond
	return show(ctx, o, q), o.Target
}

func TestWatch(t *testing.T) {
	one := newHandler(&view{keys: map[shard.Key]admin.Location{shard.NSEKey("a"): {Member: "registry-0", Reason: "ring"}}})
	two := newHandler(&view{keys: map[shard.Key]admin.Location{shard.NSEKey("a"): {Member: "registry-1", Reason: "ring"}}})
	none := newHandler(&view{})
	answers := []http.Handler{one, says(500, "boom"), none, two}
	failure := "registry-lb: AT answers 500 Internal Server Error, and that is no JSON of registry-lb's: boom; name its admin address with --admin\n"
	const (
		title  = "TIME  the member of a at AT, every 1ms\n\n"
		first  = title + "NSE  MEMBER      REASON  SINCE  EXPIRES\na    registry-0  ring    -      -\n"
		second = title + "nobody serves it: there is no member at static://a:1\n"
		third  = title + "NSE  MEMBER      REASON  SINCE  EXPIRES\na    registry-1  ring    -      -\n"
	)
	for _, row := range []struct {
		because string
		options Options
		want    string
	}{
		{"tables follow each other", Options{Output: Table}, first + "\n" + second + "\n" + third + "\n"},
		{"on a terminal they replace each other", Options{Output: Table, Terminal: true}, clearScreen + first + clearScreen + second + clearScreen + third},
		{
			"JSON is a value a line", Options{Output: JSON, Terminal: true},
			`{"key":"a","member":"registry-0","reason":"ring"}` + "\n" + `{"error":"there is no member at static://a:1"}` + "\n" +
				`{"key":"a","member":"registry-1","reason":"ring"}` + "\n",
		},
	} {
		t.Run(row.because, func(t *testing.T) {
			got, target := watch(t, row.options, answers, Locate(shard.NSE, "a"))
			require.NoError(t, got.failure, "whoever watches may end it")
			out := regexp.MustCompile(`\d{4}-\S+Z`).ReplaceAllString(got.out, "TIME")
			require.Equal(t, strings.ReplaceAll(row.want, "AT", target.String()), out)
			require.Equal(t, strings.ReplaceAll(failure, "AT", target.String()), got.err)
		})
	}
}

func TestWatchEndsIfNobodyCanBeAskedAtFirst(t *testing.T) {
	got, target := watch(t, Options{Output: Table}, []http.Handler{says(500, `{"error":"boom"}`)}, Status())
	require.EqualError(t, got.failure, target.String()+" answers 500 Internal Server Error: boom")
	require.Empty(t, got.out)
}

func TestWatchThatIsEndedBetweenAnswers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(50*time.Millisecond, cancel)
	require.NoError(t, show(ctx, Options{Target: serve(t, newHandler(&view{})), Output: JSON, Interval: time.Hour}, Status()).failure)
}

// full is a writer that cannot write.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestOutputThatCannotBeWritten(t *testing.T) {
	target := serve(t, newHandler(&view{}))
	for _, interval := range []time.Duration{0, time.Millisecond} {
		err := Show(t.Context(), Options{Target: target, Output: Table, Timeout: patience, Interval: interval, Out: full{}, Err: full{}}, Members())
		require.EqualError(t, err, "the answer can't be shown: file already closed")
	}
}
