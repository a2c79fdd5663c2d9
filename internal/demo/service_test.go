// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startEcho serves connections that first say their own address and then give back what they get.
func startEcho(t *testing.T) string {
	t.Helper()
	listener, err := listen(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	addr := listener.Addr().String()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.WriteString(conn, addr+"\n")
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return addr
}

func TestServiceGivesConnectionsInTurn(t *testing.T) {
	backends := []string{startEcho(t), startEcho(t), startEcho(t)}
	s, err := startService(t.Context(), backends)
	require.NoError(t, err)
	defer s.stop()
	for i := range 7 {
		conn, err := new(net.Dialer).DialContext(t.Context(), tcp, s.url().Host)
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
		_, err = io.WriteString(conn, "hello")
		require.NoError(t, err)
		want := backends[i%3] + "\nhello"
		got := make([]byte, len(want))
		_, err = io.ReadFull(conn, got)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestServiceEndsItsConnections(t *testing.T) {
	s, err := startService(t.Context(), []string{startEcho(t)})
	require.NoError(t, err)
	conn, err := new(net.Dialer).DialContext(t.Context(), tcp, s.url().Host)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
	_, err = conn.Read(make([]byte, 1))
	require.NoError(t, err)
	s.stop()
	_, err = io.Copy(io.Discard, conn)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is still open")
}
