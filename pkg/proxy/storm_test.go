// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestConnectionsThatSayNothing has hundreds of them, and some that say nonsense, while a storm of clients connects
// anew for each call, as NSM's do, and one goes on over the connection that it has. Nobody's call fails, and who says
// nothing is cut off.
func TestConnectionsThatSayNothing(t *testing.T) {
	t.Parallel()
	const silent, storm, atATime = 500, 60, 20
	s := newHopScene(t)
	f := nseFlavour()
	register := func() {
		_, err := s.client.register(t, s.cc, f, f.item("nse"))
		require.NoError(t, err)
	}
	register()

	var dialer net.Dialer
	open := make([]net.Conn, 0, silent)
	for i := range silent {
		conn, err := dialer.DialContext(t.Context(), "tcp", s.front.addr)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		if i%10 == 0 {
			_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		}
		open = append(open, conn)
	}
	register()

	names := make(chan string)
	var clients sync.WaitGroup
	for _, pod := range namesOf("nsc", atATime) {
		c := s.mesh.client(t, pod)
		clients.Go(func() {
			for name := range names {
				_, err := c.register(t, c.dial(t, s.front.addr), f, f.item(name))
				assert.NoError(t, err)
			}
		})
	}
	for _, name := range namesOf("storm", storm) {
		names <- name
		register()
	}
	close(names)
	clients.Wait()

	for _, conn := range open {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(2*patience)))
		_, err := io.Copy(io.Discard, conn) // what TLS says of nonsense, and the end
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it is still open")
	}
}
