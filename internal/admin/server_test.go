// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return listener
}

// serve runs Serve and returns its address, what ends it, and what it returned.
func serve(t *testing.T, h http.Handler) (addr string, stop context.CancelFunc, result <-chan error) {
	t.Helper()
	listener := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, listener, h, zaptest.NewLogger(t)) }()
	t.Cleanup(cancel)
	return listener.Addr().String(), cancel, done
}

func wait(t *testing.T, result <-chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(30 * time.Second):
		require.FailNow(t, "Serve did not return")
		return nil
	}
}

// talk sends raw text and returns the status and the body of the answer.
func talk(t *testing.T, addr, text string) (code int, answer string) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	go func() { _, _ = io.WriteString(conn, text) }()
	method, _, _ := strings.Cut(text, " ")
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, string(body)
}

func TestServeAnswersUntilItIsToldToStop(t *testing.T) {
	addr, stop, result := serve(t, newTestHandler(&fixed{}))
	code, body := talk(t, addr, "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	require.Equal(t, 200, code)
	require.Equal(t, "ok\n", body)
	stop()
	require.NoError(t, wait(t, result))
	_, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.Error(t, err, "the listener is closed")
}

func TestHeadGetsHeadersAlone(t *testing.T) {
	addr, stop, result := serve(t, newTestHandler(&fixed{notReady: []string{"why"}}))
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 200, "/api/v1/members": 200, "/": 200} {
		code, body := talk(t, addr, "HEAD "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		require.Equal(t, want, code, path)
		require.Empty(t, body, path)
	}
	stop()
	require.NoError(t, wait(t, result))
}

func TestAnEndlessQueryIsCutOff(t *testing.T) {
	addr, stop, result := serve(t, newTestHandler(&everywhere{}))
	name := strings.Repeat("a", 1<<20)
	code, _ := talk(t, addr, "GET /api/v1/locate?nse="+name+" HTTP/1.1\r\nHost: a\r\n\r\n")
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, code)

	code, body := talk(t, addr, "GET /api/v1/locate?nse="+name[:32<<10]+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	require.Equal(t, 200, code, "a long name is fine")
	require.Greater(t, len(body), 64<<10)
	stop()
	require.NoError(t, wait(t, result))
}

func TestAnswersUnderWayAreFinished(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	addr, stop, result := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		writeText(w, 200, "late")
	}))
	go func() {
		<-entered
		stop()
		// The time in which a server that does not wait for answers would be gone.
		select {
		case err := <-result:
			t.Errorf("stopped with an answer under way: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		close(leave)
	}()
	_, body := talk(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	require.Equal(t, "late\n", body)
	require.NoError(t, wait(t, result))
}

func TestServeThatIsStoppedBeforeItBegins(t *testing.T) {
	listener := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, Serve(ctx, listener, http.NotFoundHandler(), zaptest.NewLogger(t)))
	_, err := listener.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

// broken is a listener that fails.
type broken struct{ net.Listener }

func (broken) Accept() (net.Conn, error) { return nil, errors.New("out of luck") }

func TestServeSaysWhyItHadToStop(t *testing.T) {
	listener := listen(t)
	err := Serve(t.Context(), broken{listener}, http.NotFoundHandler(), zaptest.NewLogger(t))
	require.EqualError(t, err, "admin: serve on "+listener.Addr().String()+": out of luck")
}
