// SPDX-License-Identifier: Apache-2.0

//go:build linux

package identity_test

import (
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"

	"github.com/networkservicemesh/registry-lb/internal/identity"
)

// BenchmarkServerHandshake is the server's share of connections with mutual TLS: the CPU time of the thread that accepts
// them one after the other, and how many a core could take in a second.
func BenchmarkServerHandshake(b *testing.B) {
	own := newAuthority(b, "k8s.nsm")
	server := identity.Bind(workload(b, own, lbPath), identity.ServerCredentials)
	other := workload(b, own, clientPath)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		b.Run(tls.VersionName(version), func(b *testing.B) {
			config := tlsconfig.MTLSClientConfig(other, other, tlsconfig.AuthorizeAny())
			config.MinVersion, config.MaxVersion = version, version
			client := credentials.NewTLS(config)
			l, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
			require.NoError(b, err)
			used := make(chan time.Duration, 1)
			go func() { used <- acceptAll(b, l, server) }()

			b.ReportAllocs()
			for b.Loop() {
				raw, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", l.Addr().String())
				require.NoError(b, err)
				conn, _, err := client.ClientHandshake(b.Context(), "registry", raw)
				require.NoError(b, err)
				_, err = conn.Read(make([]byte, 1))
				require.NoError(b, err)
				require.NoError(b, raw.Close())
			}
			require.NoError(b, l.Close())
			each := <-used / time.Duration(b.N)
			b.ReportMetric(float64(each.Microseconds()), "server-cpu-us/op")
			b.ReportMetric(float64(time.Second)/float64(each), "handshakes/s/core")
		})
	}
}

// acceptAll shakes hands with all who connect until l is closed, and returns the CPU time that took.
func acceptAll(b *testing.B, l net.Listener, server credentials.TransportCredentials) time.Duration {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime(b)
	for {
		raw, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return threadTime(b) - before
		}
		if err == nil {
			var conn net.Conn
			if conn, _, err = server.ServerHandshake(raw); err == nil {
				_, err = conn.Write([]byte{1})
			}
			_ = raw.Close()
		}
		if err != nil {
			b.Errorf("accept a connection: %v", err)
		}
	}
}

func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		b.Errorf("ask for the CPU time of a thread: %v", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
