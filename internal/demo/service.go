// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"

	"golang.org/x/sync/errgroup"
)

// service spreads connections over registries as a Service of Kubernetes does: it looks at no call, and each new
// connection goes to the next one.
type service struct {
	listener net.Listener
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

func startService(ctx context.Context, backends []string) (*service, error) {
	listener, err := listen(ctx)
	if err != nil {
		return nil, fmt.Errorf("serve a plain Service: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &service{listener: listener, cancel: cancel}
	s.running.Go(func() {
		for turn := 0; ; turn++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.running.Go(func() { relay(ctx, conn, backends[turn%len(backends)]) })
		}
	})
	return s, nil
}

// url is where clients connect.
func (s *service) url() *url.URL { return clientURL(s.listener.Addr().String()) }

// stop ends all connections.
func (s *service) stop() {
	s.cancel()
	_ = s.listener.Close()
	s.running.Wait()
}

// relay copies between conn and a new connection to backend until one of them ends.
func relay(ctx context.Context, conn net.Conn, backend string) {
	defer func() { _ = conn.Close() }()
	other, err := new(net.Dialer).DialContext(ctx, tcp, backend)
	if err != nil {
		return
	}
	defer func() { _ = other.Close() }()
	// The end of one direction, or of ctx, ends both.
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() {
		_ = conn.Close()
		_ = other.Close()
	})()
	group.Go(func() error { return pipe(conn, other) })
	group.Go(func() error { return pipe(other, conn) })
	_ = group.Wait()
}

// pipe copies until the end, which is always an error.
func pipe(to, from net.Conn) error {
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	return io.EOF
}
