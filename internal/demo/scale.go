// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// settleTimeout bounds how long NSEs may need to be found and refreshed after a change: two lifetimes, so that one
	// that was registered again, or was refreshed a moment before, has had its turn.
	settleTimeout = 2 * shortLifetime
	// settlePoll is how often they are looked for.
	settlePoll = 100 * time.Millisecond
)

// step is what one change of the members did to NSEs that live.
type step struct {
	// member is the registry that came or went.
	member string
	// stayed, toNewcomer, memberLeft and needless are how many are where they were, are now at the registry that
	// joined, had to move because theirs left, and moved without such a reason.
	stayed, toNewcomer, memberLeft, needless int
	// lost is how many could not be found by name any more, or were not refreshed any more.
	lost int
	// found and refreshed are how long it took until the last one was found, and was refreshed.
	found, refreshed time.Duration
}

// scale adds a registry, takes another one away, and unregisters all NSEs.
func (d *demo) scale(ctx context.Context, r *results) error {
	defer d.progress.clear()
	registries, err := startFleet(ctx, shortLifetime)
	if err != nil {
		return err
	}
	defer func() { registries.stop() }()
	lb, err := startBalancer(ctx, d.Log, registries.addrs())
	if err != nil {
		return err
	}
	defer lb.stop()
	clients, cancel := context.WithCancel(ctx)
	defer cancel()
	nses, err := newCrowd(clients, d.NSEs, lb.url())
	if err != nil {
		return err
	}
	told := func(what string) func(int) {
		return func(done int) { d.progress.doing("registry-lb: %s %d of %d NSEs", what, done, d.NSEs) }
	}
	if err := nses.each(ctx, told("registered"), func(ctx context.Context, e *endpoint) error { return e.register(ctx) }); err != nil {
		return err
	}
	watch, err := newObserver(lb, nses.names(), settleTimeout)
	if err != nil {
		return err
	}
	defer watch.close()

	if registries, err = registries.add(ctx, shortLifetime); err != nil {
		return err
	}
	newcomer := registries[len(registries)-1].addr
	if r.joined, err = d.change(ctx, watch, newcomer, "joined", registries.addrs()); err != nil {
		return err
	}

	// The registry that leaves is the one that has the NSE which is shown, so that one sees it move.
	shown := nses.names()[min(shownNSE, len(nses)-1)]
	if err := d.showLocation(ctx, lb, shown); err != nil {
		return err
	}
	leaver, err := lb.locate(ctx, shown)
	if err != nil {
		return err
	}
	remaining, stop := registries.without(leaver)
	if r.left, err = d.change(ctx, watch, leaver, "left", remaining.addrs(), stop); err != nil {
		return err
	}
	if err := d.showLocation(ctx, lb, shown); err != nil {
		return err
	}

	if err := nses.each(ctx, told("unregistered"), func(ctx context.Context, e *endpoint) error { return e.unregister(ctx) }); err != nil {
		return err
	}
	r.leftBehind, err = forgotten(ctx, remaining, shortLifetime)
	if err == nil {
		d.progress.done("all unregistered: %d of %d left behind", r.leftBehind, d.NSEs)
	}
	return err
}

// change makes the registries at addrs the members, because member joined or left, calls then, and finds out what
// became of the NSEs.
func (d *demo) change(ctx context.Context, o *observer, member, verb string, addrs []string, then ...func()) (s step, err error) {
	before, err := o.locateAll(ctx)
	if err != nil {
		return s, err
	}
	known, err := o.expirations(ctx, o.names)
	if err != nil {
		return s, err
	}
	d.progress.doing("%s %s: waiting for registry-lb to see it", member, verb)
	if err := o.lb.setMembers(ctx, addrs); err != nil {
		return s, err
	}
	for _, f := range then {
		f()
	}
	s, err = o.settle(ctx, known, func(done int) {
		d.progress.doing("%s %s: found and refreshed since: %d of %d NSEs", member, verb, done, d.NSEs)
	})
	if err != nil {
		return s, err
	}
	after, err := o.locateAll(ctx)
	if err != nil {
		return s, err
	}
	s.member = member
	s.sort(before, after, addrs)
	d.progress.done("%s %s: the last NSE was found after %s, and refreshed after %s", member, verb, seconds(s.found), seconds(s.refreshed))
	return s, nil
}

// sort counts what moved. members are those that there are now; the one that joined, if any, is s.member.
func (s *step) sort(before, after map[string]string, members []string) {
	for name, old := range before {
		switch now := after[name]; {
		case !slices.Contains(members, now):
			s.needless++
		case now == old:
			s.stayed++
		case !slices.Contains(members, old):
			s.memberLeft++
		case now == s.member:
			s.toNewcomer++
		default:
			s.needless++
		}
	}
}

// observer looks at NSEs from outside.
type observer struct {
	lb    *balancer
	names []string
	conn  *grpc.ClientConn
	// patience bounds how long NSEs are waited for.
	patience time.Duration
}

// newObserver returns an observer of the NSEs with these names. It has a connection of its own for all its calls: it
// asks often.
func newObserver(lb *balancer, names []string, patience time.Duration) (*observer, error) {
	conn, err := grpc.NewClient(lb.front, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return nil, fmt.Errorf("connect to registry-lb: %w", err)
	}
	return &observer{lb, names, conn, patience}, nil
}

func (o *observer) close() { _ = o.conn.Close() }

// locateAll returns for each NSE the member to which calls about it go.
func (o *observer) locateAll(ctx context.Context) (map[string]string, error) {
	return forEach(ctx, o.names, func(ctx context.Context, name string) (string, bool, error) {
		member, err := o.lb.locate(ctx, name)
		return member, true, err
	})
}

// expirations returns when those of the NSEs that are found by their names run out.
func (o *observer) expirations(ctx context.Context, names []string) (map[string]time.Time, error) {
	client := registry.NewNetworkServiceEndpointRegistryClient(o.conn)
	return forEach(ctx, names, func(ctx context.Context, name string) (time.Time, bool, error) {
		matches, err := find(ctx, client, &registry.NetworkServiceEndpoint{Name: name})
		if err != nil || len(matches) == 0 {
			return time.Time{}, false, err
		}
		return matches[0].GetExpirationTime().AsTime(), true, nil
	})
}

// settle waits until all NSEs are found by their names, and with an expiration later than known: a refresh has reached
// the registry in which they are found. It gives up when it has run out of patience.
func (o *observer) settle(ctx context.Context, known map[string]time.Time, told func(done int)) (s step, err error) {
	began := time.Now()
	missing, stale := o.names, o.names
	ticker := time.NewTicker(settlePoll)
	defer ticker.Stop()
	for {
		now, err := o.expirations(ctx, stale)
		if err != nil {
			return s, err
		}
		took := time.Since(began)
		isFound := func(name string) bool { _, ok := now[name]; return ok }
		if len(missing) > 0 {
			missing = slices.DeleteFunc(slices.Clone(missing), isFound)
			s.found = took
		}
		stale = slices.DeleteFunc(slices.Clone(stale), func(name string) bool { return now[name].After(known[name]) })
		s.refreshed = took
		s.lost = len(stale)
		told(len(o.names) - len(stale))
		if len(stale) == 0 || took > o.patience {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-ticker.C:
		}
	}
}

// forgotten waits until the registries have no NSE any more, and returns how many they still have after lifetime, in
// which a copy that nobody refreshes runs out.
func forgotten(ctx context.Context, registries fleet, lifetime time.Duration) (int, error) {
	deadline := time.Now().Add(lifetime)
	ticker := time.NewTicker(settlePoll)
	defer ticker.Stop()
	for {
		copies, err := registries.copies(ctx)
		if err != nil || len(copies) == 0 || time.Now().After(deadline) {
			return len(copies), err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-ticker.C:
		}
	}
}

// forEach asks about each name, several at the same time, and returns the answers; ask says whether there is one.
func forEach[T any](ctx context.Context, names []string, ask func(ctx context.Context, name string) (T, bool, error)) (map[string]T, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	var mu sync.Mutex
	answers := make(map[string]T, len(names))
	for _, name := range names {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			answer, ok, err := ask(ctx, name)
			if err != nil {
				return fmt.Errorf("ask registry-lb about %s: %w", name, err)
			}
			if ok {
				mu.Lock()
				defer mu.Unlock()
				answers[name] = answer
			}
			return nil
		})
	}
	return answers, group.Wait()
}
