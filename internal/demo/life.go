// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
)

// life is what came of NSEs that were registered, looked up by name, refreshed and unregistered.
type life struct {
	// notFound is how many were not found by their names.
	notFound int
	// copied is how many were in more than one registry after a refresh: it had gone to a registry that did not
	// know them, and in the one that did they run out while their NSEs live.
	copied int
	// leftBehind is how many some registry still had after Unregister.
	leftBehind int
	// took is the time for all calls of the clients.
	took time.Duration
}

// opener puts something in front of registries that clients connect to, and returns its address.
type opener func(ctx context.Context, f fleet) (front *url.URL, stop func(), err error)

// behindService is the opener of a plain Service.
func (d *demo) behindService(ctx context.Context, f fleet) (front *url.URL, stop func(), err error) {
	s, err := startService(ctx, f.addrs())
	if err != nil {
		return nil, nil, err
	}
	return s.url(), s.stop, nil
}

// behindBalancer is the opener of registry-lb.
func (d *demo) behindBalancer(ctx context.Context, f fleet) (front *url.URL, stop func(), err error) {
	b, err := startBalancer(ctx, d.Log, f.addrs())
	if err != nil {
		return nil, nil, err
	}
	return b.url(), b.stop, nil
}

// live lets NSEs live once, behind what open opens.
func (d *demo) live(ctx context.Context, title string, open opener) (l life, err error) {
	defer d.progress.clear()
	registries, err := startFleet(ctx, nsmLifetime)
	if err != nil {
		return l, err
	}
	defer registries.stop()
	front, stop, err := open(ctx, registries)
	if err != nil {
		return l, err
	}
	defer stop()
	// Clients end first.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nses, err := newCrowd(ctx, d.NSEs, front)
	if err != nil {
		return l, err
	}
	others, err := newClient(ctx, "looking-for-nses", front)
	if err != nil {
		return l, err
	}
	stage := func(does string, do func(ctx context.Context, e *endpoint) error) error {
		began := time.Now()
		defer func() { l.took += time.Since(began) }()
		return nses.each(ctx, func(done int) { d.progress.doing("%s: %s %d of %d NSEs", title, does, done, d.NSEs) }, do)
	}

	if err := stage("registered", func(ctx context.Context, e *endpoint) error { return e.register(ctx) }); err != nil {
		return l, err
	}
	found := make(chan struct{}, d.NSEs)
	err = stage("looked up", func(ctx context.Context, e *endpoint) error {
		matches, err := find(ctx, others, &registry.NetworkServiceEndpoint{Name: e.nse.GetName()})
		if err != nil {
			return fmt.Errorf("find %s: %w", e.nse.GetName(), err)
		}
		if len(matches) > 0 {
			found <- struct{}{}
		}
		return nil
	})
	if err != nil {
		return l, err
	}
	l.notFound = d.NSEs - len(found)

	if err := stage("refreshed", func(ctx context.Context, e *endpoint) error { return e.register(ctx) }); err != nil {
		return l, err
	}
	copies, err := registries.copies(ctx)
	if err != nil {
		return l, err
	}
	for _, n := range copies {
		if n > 1 {
			l.copied++
		}
	}

	if err := stage("unregistered", func(ctx context.Context, e *endpoint) error { return e.unregister(ctx) }); err != nil {
		return l, err
	}
	remaining, err := registries.copies(ctx)
	if err != nil {
		return l, err
	}
	l.leftBehind = len(remaining)
	d.progress.done("%s: registered, looked up, refreshed and unregistered %d NSEs in %s", title, d.NSEs, seconds(l.took))
	return l, nil
}
