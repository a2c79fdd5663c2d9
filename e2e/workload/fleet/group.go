// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"

	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
)

const (
	// parallel is how many NSEs register or unregister at once.
	parallel = 16
	// callTimeout is how long a call may take with all its attempts, each of which NSM's client gives 15 s.
	callTimeout = time.Minute
)

// group is some NSEs that are registered, refreshed and unregistered together.
type group struct {
	ctx    context.Context //nolint:containedctx // it is that of the pulses, which the group owns
	stop   context.CancelFunc
	prefix string
	order  fleet.Order
	ledger *ledger
	client registry.NetworkServiceEndpointRegistryClient
	pulses sync.WaitGroup
}

func newGroup(ctx context.Context, prefix string, order fleet.Order, l *ledger, client registry.NetworkServiceEndpointRegistryClient) *group {
	g := &group{prefix: prefix, order: order, ledger: l, client: client}
	g.ctx, g.stop = context.WithCancel(ctx)
	return g
}

func (g *group) name(i int) string { return fmt.Sprintf("%s-%d", g.prefix, i) }

func (g *group) register() {
	g.each(func(name string) {
		g.call(name)
		if g.order.Pulse > 0 {
			g.pulses.Go(func() { g.pulse(name) })
		}
	})
}

// pulse registers an NSE again and again.
func (g *group) pulse(name string) {
	for {
		timer := time.NewTimer(g.order.Pulse)
		select {
		case <-g.ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			g.call(name)
		}
	}
}

// call registers an NSE as its owner does, who gives up at some time.
func (g *group) call(name string) {
	ctx, cancel := g.within(g.ctx)
	defer cancel()
	nse := &registry.NetworkServiceEndpoint{
		Name: name, Url: "tcp://10.0.0.1:5003", NetworkServiceNames: []string{g.order.Service},
	}
	_, err := g.client.Register(ctx, nse)
	if g.ctx.Err() == nil {
		g.ledger.called("Register", err)
	}
}

func (g *group) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(grpcmetadata.PathWithContext(ctx, new(grpcmetadata.Path)), callTimeout)
}

func (g *group) unregister() {
	g.stop()
	g.pulses.Wait()
	g.each(func(name string) {
		ctx, cancel := g.within(context.WithoutCancel(g.ctx))
		defer cancel()
		_, err := g.client.Unregister(ctx, &registry.NetworkServiceEndpoint{Name: name})
		g.ledger.called("Unregister", err)
	})
}

// each does something for each NSE, several at once.
func (g *group) each(do func(name string)) {
	places := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for i := range g.order.Count {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			do(g.name(i))
		})
	}
	all.Wait()
}
