// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// says is a handler that answers with a code and a text.
func says(code int, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	})
}

// TestBadServers: AT stands for the address.
func TestBadServers(t *testing.T) {
	const notOurs = "; name its admin address with --admin"
	for _, row := range []struct {
		because string
		handler http.Handler
		want    string
	}{
		{"no JSON", says(200, "<html>\x1b[2J"), "AT answers, but that is no JSON of registry-lb's" + notOurs},
		{"nothing", says(200, ""), "AT answers, but that is no JSON of registry-lb's" + notOurs},
		{"half an answer", says(200, `{"members":[{"name":"a"`), "AT answers, but that is no JSON of registry-lb's" + notOurs},
		{"other JSON", says(200, `{"status":"success"}`), "AT answers, but that is no answer of registry-lb's" + notOurs},
		{"JSON of another shape", says(200, `{"members":{"a":1},"ready":"yes","member":["a"]}`), "AT answers, but that is no answer of registry-lb's" + notOurs},
		{"no object", says(200, `[]`), "AT answers, but that is no answer of registry-lb's" + notOurs},
		{
			"the path is not known", says(404, "<b>404 page\nnot found\x07</b>"),
			`AT answers 404 Not Found, and that is no JSON of registry-lb's: <b>404 page not found\x07</b>` + notOurs,
		},
		{
			"a registry-lb without the path", says(404, `{"error":"there is no /api/v1/x"}`),
			"AT does not know what was asked: there is no /api/v1/x; is it of the same version?",
		},
		{"it failed", says(500, `{"error":"cannot\nencode\u001b"}`), `AT answers 500 Internal Server Error: cannot encode\x1b`},
		{
			"it failed otherwise", says(500, "boom"),
			"AT answers 500 Internal Server Error, and that is no JSON of registry-lb's: boom" + notOurs,
		},
		{
			"an answer with the wrong code", says(500, `{"members":[],"ready":true,"member":"a"}`),
			`AT answers 500 Internal Server Error, and that is no answer of registry-lb's: {"members":[],"ready":true,"member":"a"}` + notOurs,
		},
		{
			"a proxy has nobody to ask", says(503, "no upstream"),
			"AT answers 503 Service Unavailable, and that is no JSON of registry-lb's: no upstream" + notOurs,
		},
		{
			"it sends elsewhere", http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound),
			`AT answers 302 Found, and that is no JSON of registry-lb's: <a href="http://127.0.0.1:1/">Found</a>.` + notOurs,
		},
		{"a long error", says(500, `{"error":"`+strings.Repeat("x", 1000)+`"}`), "AT answers 500 Internal Server Error: " + strings.Repeat("x", maxLine) + "..."},
	} {
		t.Run(row.because, func(t *testing.T) {
			target := serve(t, row.handler)
			for _, q := range []Question{Members(), Status(), Locate(shard.NSE, "a")} {
				for _, output := range []Output{Table, JSON} {
					got := show(t.Context(), Options{Target: target, Output: output}, q)
					require.EqualError(t, got.failure, strings.ReplaceAll(row.want, "AT", target.String()))
					require.NotErrorIs(t, got.failure, ErrNoMember)
					require.NotErrorIs(t, got.failure, ErrNotReady)
					require.Empty(t, got.out)
					require.Empty(t, got.err)
				}
			}
		})
	}
}

func TestHugeAnswerIsNotReadToItsEnd(t *testing.T) {
	var written atomic.Int64
	target := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for block := bytes.Repeat([]byte(" "), 1<<20); ; {
			n, err := w.Write(block)
			if written.Add(int64(n)) > 100*maxAnswer || err != nil {
				return
			}
		}
	}))
	got := show(t.Context(), Options{Target: target, Output: JSON}, Members())
	require.EqualError(t, got.failure, target.String()+" answers with more than 16 MiB: that is not registry-lb; name its admin address with --admin")
	require.Empty(t, got.out)
	// What has been written may be on its way.
	require.Less(t, written.Load(), int64(3*maxAnswer))
}

func TestServerThatHangs(t *testing.T) {
	for _, row := range []struct {
		because string
		begins  string
	}{
		{"before the answer", ""},
		{"in mid-answer", `{"members":[`},
	} {
		t.Run(row.because, func(t *testing.T) {
			target := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if row.begins != "" {
					_, _ = io.WriteString(w, row.begins)
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			}))
			got := show(t.Context(), Options{Target: target, Output: Table, Timeout: 50 * time.Millisecond}, Members())
			require.EqualError(t, got.failure, target.String()+" does not answer within 50ms: look at its log, or give it more time with --timeout")

			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("asked to")) })
			got = show(ctx, Options{Target: target, Output: Table}, Members())
			require.EqualError(t, got.failure, "stopped before "+target.String()+" answered: asked to")
		})
	}
}

func TestNobodyIsThere(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())
	for text, want := range map[string]string{
		closed: "nobody listens at AT: start registry-lb there, or name its admin address with --admin",
		"unix://" + filepath.Join(t.TempDir(), "s"): "nobody listens at AT: start registry-lb there, or name its admin address with --admin",
	} {
		target, err := ParseTarget(text)
		require.NoError(t, err)
		got := show(t.Context(), Options{Target: target, Output: Table}, Members())
		require.EqualError(t, got.failure, strings.ReplaceAll(want, "AT", text))
	}
}

func TestNobodyKnowsTheHost(t *testing.T) {
	c := newClient(Target{url: &url.URL{Scheme: "http", Host: "nowhere:1"}}, patience)
	err := c.explain(t.Context(), &url.Error{Op: "Get", URL: "http://nowhere:1", Err: &net.DNSError{Name: "nowhere", IsNotFound: true}})
	require.EqualError(t, err, "nobody knows the host nowhere: name the admin address of registry-lb with --admin")
}

// The most likely mistake: the address for clients, who speak HTTP/2 without TLS.
func TestServerThatDoesNotSpeakHTTP(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
		_, _ = conn.Read(make([]byte, 1))
	}()
	target, err := ParseTarget("http://" + listener.Addr().String())
	require.NoError(t, err)
	got := show(t.Context(), Options{Target: target, Output: Table}, Members())
	require.ErrorContains(t, got.failure, target.String()+" can't be asked: ")
	require.ErrorContains(t, got.failure, "; --admin is the address in NSM_ADMIN_LISTEN_ON, not the one for clients")
	require.True(t, isHarmless(got.failure.Error()), "%q", got.failure)
	require.NoError(t, listener.Close())
	<-done
}
