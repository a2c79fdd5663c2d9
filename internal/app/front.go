// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress what they send
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

// readyPoll is how often it is looked whether calls are welcome.
const readyPoll = 50 * time.Millisecond

// front is the gRPC server that clients connect to, and whether they should.
type front struct {
	server *grpc.Server
	health *health.Server
	proxy  *proxy.Proxy
	log    *zap.Logger

	draining atomic.Bool
}

func newFront(p *proxy.Proxy, log *zap.Logger, options ...grpc.ServerOption) *front {
	f := &front{
		server: grpc.NewServer(append(proxy.ServerOptions(), options...)...),
		health: health.NewServer(),
		proxy:  p,
		log:    log,
	}
	p.Register(f.server, f.health)
	f.setServing(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	return f
}

func (f *front) setServing(s grpc_health_v1.HealthCheckResponse_ServingStatus) {
	f.health.SetServingStatus("", s)
	for _, name := range proxy.ServiceNames() {
		f.health.SetServingStatus(name, s)
	}
}

// announce says by gRPC's health service that calls are welcome, as soon as they are.
func (f *front) announce(ctx context.Context, notReady func() []string) {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for len(notReady()) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
	// No effect once it is draining.
	f.setServing(grpc_health_v1.HealthCheckResponse_SERVING)
	f.log.Info("ready")
}

// serve answers calls on l until the front is drained or stopped.
func (f *front) serve(l net.Listener) error {
	// It may be stopped before it has begun.
	if err := f.server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// drain ends in good order: not ready, then after delay no new calls, then at the latest after timeout no calls.
func (f *front) drain(ctx context.Context, delay, timeout time.Duration) {
	f.draining.Store(true)
	f.health.Shutdown()
	f.log.Info("not ready any more, calls are still taken", zap.Duration("drain_delay", delay))
	wait(ctx, delay)

	f.log.Info("draining: no new calls are taken", zap.Duration("drain_timeout", timeout))
	f.proxy.Drain()
	drained, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		f.server.GracefulStop()
	}()
	if !wait(drained, timeout) {
		return
	}
	f.log.Warn("calls in flight are cut", zap.Duration("drain_timeout", timeout))
	f.server.Stop()
	<-drained.Done()
}

// stop ends at once.
func (f *front) stop() {
	f.draining.Store(true)
	f.server.Stop()
}

// wait is true after d, and false if ctx ended before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
