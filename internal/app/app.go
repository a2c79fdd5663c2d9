// SPDX-License-Identifier: Apache-2.0

// Package app puts the parts of registry-lb together and runs them.
package app

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/networkservicemesh/sdk/pkg/tools/pprofutils"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/networkservicemesh/registry-lb/internal/admin"
	"github.com/networkservicemesh/registry-lb/internal/config"
	"github.com/networkservicemesh/registry-lb/pkg/endpoints"
	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

// Run serves as cfg says until ctx is done and then drains: it says that it is not ready, goes on for the drain delay
// so that clients are sent elsewhere, takes no new calls, and lets those in flight end for the drain timeout. It
// returns nil after that, and an error when it can't serve.
func Run(ctx context.Context, cfg *config.Config, log *zap.Logger) error {
	source, err := newSource(cfg, log)
	if err != nil {
		return err
	}
	security, err := newSecurity(cfg, log) //nolint:contextcheck // policies are read and compiled, not waited for
	if err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p, err := proxy.New(proxy.Options{
		Backends:         source.Describe(),
		Store:            proxy.Store(cfg.Store),
		NoBackendWait:    noBackendWait(cfg),
		JoinDelay:        cfg.JoinDelay,
		MaxTokenLifetime: cfg.MaxTokenLifetime,
		ProbeInterval:    cfg.ProbeInterval,
		ProbeTimeout:     cfg.ProbeTimeout,
		EmptyGrace:       cfg.EmptyGrace,
		DialOptions:      security.dialOptions,
		Hop:              security.hop,
		Log:              log,
		Registerer:       metrics,
	})
	if err != nil {
		return fmt.Errorf("set up the proxy: %w", err)
	}

	// Ports are opened before anything runs, so that one that is taken stops the start.
	listeners, err := listen(ctx, cfg)
	if err != nil {
		return err
	}
	front := newFront(p, log, security.serverOptions...)
	view := &view{proxy: p, source: source, front: front, security: security}

	// Parts outlive ctx: while calls drain, members are still followed and probes are still answered.
	parts, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, parts := errgroup.WithContext(parts)
	group.Go(func() error { return p.Run(parts) })
	group.Go(func() error { return security.run(parts) })
	group.Go(func() error {
		security.followRenewals(parts, p.Renew)
		return nil
	})
	group.Go(func() error {
		// Members that are asked before there is a certificate would be taken for dead.
		security.wait(parts)
		if err := source.Run(parts, p.SetMembers); err != nil {
			return fmt.Errorf("follow %s: %w", source.Describe(), err)
		}
		return nil
	})
	group.Go(func() error {
		return admin.Serve(parts, listeners.admin, admin.NewHandler(view, metrics, cfg.Backends.String()), log)
	})
	group.Go(func() error {
		front.announce(parts, view.NotReady)
		return nil
	})
	for _, l := range listeners.front {
		group.Go(func() error { return front.serve(l) })
	}
	if cfg.PprofEnabled {
		// It has no end of its own: it lives as long as the process.
		go pprofutils.ListenAndServe(parts, string(cfg.PprofListenOn))
	}
	group.Go(func() error {
		select {
		case <-ctx.Done():
			front.drain(parts, cfg.DrainDelay, cfg.DrainTimeout)
		case <-parts.Done():
			front.stop()
		}
		stop()
		return nil
	})
	return group.Wait()
}

// noBackendWait translates "no time at all", which the proxy's options write as a negative number.
func noBackendWait(cfg *config.Config) time.Duration {
	if cfg.NoBackendWait == 0 {
		return -1
	}
	return cfg.NoBackendWait
}

func newSource(cfg *config.Config, log *zap.Logger) (endpoints.Source, error) {
	options := endpoints.Options{Logger: log}
	if cfg.Backends.Scheme == endpoints.Kubernetes {
		var err error
		if options.Client, options.Namespace, err = endpoints.NewClient(); err != nil {
			return nil, fmt.Errorf("NSM_BACKENDS=%s: %w", cfg.Backends, err)
		}
	}
	source, err := endpoints.New(cfg.Backends.Spec, options)
	if err != nil {
		return nil, fmt.Errorf("NSM_BACKENDS=%s: %w", cfg.Backends, err)
	}
	return source, nil
}

type listeners struct {
	front []net.Listener
	admin net.Listener
}

func listen(ctx context.Context, cfg *config.Config) (l listeners, err error) {
	if l.admin, err = cfg.AdminListenOn.Listen(ctx); err != nil {
		return l, fmt.Errorf("NSM_ADMIN_LISTEN_ON: %w", err)
	}
	for _, addr := range cfg.ListenOn {
		front, err := addr.Listen(ctx)
		if err != nil {
			l.close()
			return l, fmt.Errorf("NSM_LISTEN_ON: %w", err)
		}
		l.front = append(l.front, front)
	}
	return l, nil
}

func (l listeners) close() {
	_ = l.admin.Close()
	for _, front := range l.front {
		_ = front.Close()
	}
}
