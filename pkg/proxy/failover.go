// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	// firstPause and maxPause bound the pause after a round in which no member could be reached. It doubles
	// from round to round, and is spread so that the callers of an outage do not come back all at once.
	firstPause = 20 * time.Millisecond
	maxPause   = 500 * time.Millisecond
	// thriftyPause is the pause of a call whose attempts can't be paid for.
	thriftyPause = 3 * time.Second

	// reasonMargin is how long before the caller's deadline a call that finds nobody gives up.
	reasonMargin = 50 * time.Millisecond

	// strangerPause is the pause between two looks for a member that only another registry-lb knows yet: it is known
	// when it has said who it is, which is no change of the roster.
	strangerPause = 50 * time.Millisecond
)

// failover is the course of one call over members that could not be reached.
type failover struct {
	// began is when the call first found nobody; zero before that.
	began time.Time
	// tried are the members that could not be reached in this round, by name.
	tried map[string]*member
	// thrifty says that one attempt is all there is in this round: it can't be paid for.
	thrifty bool
	// again is the member that is being asked a second time.
	again *member
	pause time.Duration
	last  error
	// patient calls wait for a member for as long as the caller does.
	patient bool
	// named calls are about one key, so they wait for a holder that is not known here yet.
	named bool
}

// skip says whether the member called name could not be reached in this round. A new life of it deserves a try.
func (f *failover) skip(name string) bool {
	m, ok := f.tried[name]
	return ok && !m.hasLeft()
}

// do makes one call to the member that serves key, and to others while members can't be reached, as the package
// comment says. try makes one attempt; what it returns other than a lost answer ends the call. An ordered call is not
// in flight at a member while another one about its key is in flight elsewhere.
func (p *Proxy) do(ctx context.Context, key shard.Key, pathIDs []string, ordered bool, try func(context.Context, *member, *conns) answer) (answer, error) {
	if !p.inFlight.enter() {
		return answer{}, errOverloaded("here")
	}
	defer p.inFlight.leave()
	ctx, cancel := p.withDeadline(ctx)
	defer cancel()
	f := failover{named: ordered}
	for {
		m, err := p.pick(ctx, key, pathIDs, &f)
		if err != nil {
			return answer{}, err
		}
		c := m.calls.hold()
		if ordered {
			if busy := p.order.enter(key, c); busy != nil {
				c.release()
				if err := await(ctx, busy); err != nil {
					return answer{}, status.FromContextError(err).Err()
				}
				continue
			}
		}
		a, err := p.attempt(ctx, m, c, try)
		if ordered {
			p.order.leave(key)
		}
		c.release()
		if err != nil {
			return answer{}, err
		}
		if a.stale {
			p.metrics.retried(retrySame)
			p.awaitReplaced(ctx, m, c)
			continue
		}
		if !a.lost() {
			p.budget.earn()
			return a, nil
		}
		if err := ctx.Err(); err != nil {
			return answer{}, status.FromContextError(err).Err()
		}
		p.failed(m, key, a.err, &f)
	}
}

// withDeadline bounds a call that has no deadline. Members are not told of it: a registry gives an NSE up by as much
// before its token ends as the call that registered it may take (SDK element expire).
func (p *Proxy) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.CallTimeout)
	return untold{ctx}, cancel
}

// untold is a context whose deadline gRPC does not pass on.
type untold struct{ context.Context } //nolint:containedctx // it is one

// Deadline says that there is none.
func (untold) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// attempt makes one attempt, if m has room for it.
func (p *Proxy) attempt(ctx context.Context, m *member, c *conns, try func(context.Context, *member, *conns) answer) (answer, error) {
	if !m.inFlight.enter() {
		return answer{}, errOverloaded("at member " + m.Name)
	}
	defer m.inFlight.leave()
	a := try(ctx, m, c)
	a.from = m
	return a, nil
}

// failed notes that m did not answer.
func (p *Proxy) failed(m *member, key shard.Key, err error, f *failover) {
	f.last = lostBy(m.Name, err)
	if m.hasLeft() {
		// The table does not name it any more, or names a new life of it.
		f.again = nil
		p.metrics.retried(retryLeft)
		return
	}
	m.doubt()
	if f.again != m && m.reachable(key) {
		// The connection broke under the call and is not known to be dead: the member itself may be well, and
		// it holds the key.
		f.again = m
		p.metrics.retried(retrySame)
		return
	}
	f.again = nil
	if f.tried == nil {
		f.tried = make(map[string]*member)
	}
	f.tried[m.Name] = m
	p.metrics.retried(retryOther)
}

// lostBy says, for people, why the member called name did not answer.
func lostBy(name string, err error) error {
	return fmt.Errorf("member %s: %s", name, status.Convert(err).Message())
}

// pick returns the member to ask next, and waits for one if there is none.
func (p *Proxy) pick(ctx context.Context, key shard.Key, pathIDs []string, f *failover) (*member, error) {
	if f.again != nil && !f.again.hasLeft() {
		return f.again, nil
	}
	for {
		if p.stopping() {
			// The table still names the members, whose connections are closed.
			return nil, errStopping()
		}
		route, ok := p.route(key, pathIDs, f)
		// The order matters: a roster read after the route has each member that the route can name, unless it
		// left in between; then the next route does not name it.
		current := p.roster.Load()
		if ok && route.Awaited && f.named {
			// Whoever the ring names would be a second holder.
			if err := p.pauseFor(ctx, current, strangerPause); err != nil {
				return nil, err
			}
			continue
		}
		if ok && (!f.thrifty || len(f.tried) == 0) {
			if m := current.byName[route.Member]; m != nil {
				p.metrics.routed(route.Reason)
				return m, nil
			}
			continue
		}
		if err := p.wait(ctx, current, f); err != nil {
			return nil, err
		}
	}
}

func (p *Proxy) route(key shard.Key, pathIDs []string, f *failover) (shard.Route, bool) {
	if len(f.tried) == 0 {
		return p.table.Route(key, pathIDs)
	}
	return p.table.RouteExcept(key, pathIDs, f.skip)
}

// wait blocks until it makes sense to look for a member again: at a change of the roster, or after a pause if
// there are members and none can be reached. It returns an error when the call must not wait any longer; a patient
// one may wait until ctx or the proxy ends.
func (p *Proxy) wait(ctx context.Context, current *roster, f *failover) error {
	now := p.options.Clock.Now()
	if f.began.IsZero() {
		f.began = now
	}
	left := p.options.NoBackendWait - now.Sub(f.began)
	if deadline, ok := ctx.Deadline(); ok {
		// Whoever waits shall read the reason rather than meet its own deadline.
		left = min(left, deadline.Sub(now)-reasonMargin)
	}
	if left <= 0 && !f.patient {
		return p.noBackend(current, f, now.Sub(f.began))
	}
	f.pause = min(max(2*f.pause, firstPause), maxPause)
	f.thrifty = len(current.all) > 0 && !p.budget.spend(len(current.all))
	if f.thrifty {
		f.pause = thriftyPause
	}
	pause := f.pause/2 + time.Duration(p.options.Rand()*float64(f.pause/2))
	switch {
	case f.patient:
	case len(current.all) == 0:
		// Only a change of the roster can help.
		pause = left
	default:
		pause = min(left, pause)
	}
	if err := p.pauseFor(ctx, current, pause); err != nil {
		return err
	}
	f.thrifty = f.thrifty && p.roster.Load() == current
	f.tried = nil
	return nil
}

// pauseFor blocks until there is another roster than current, but not for longer than pause. It returns an error when
// ctx or the proxy ends.
func (p *Proxy) pauseFor(ctx context.Context, current *roster, pause time.Duration) error {
	timer := p.options.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-p.closed:
		return errStopping()
	case <-current.superseded:
	case <-timer.C():
	}
	return nil
}

func (p *Proxy) noBackend(current *roster, f *failover, waited time.Duration) error {
	waited = waited.Round(time.Millisecond)
	switch {
	case len(current.all) == 0:
		return status.Errorf(codes.Unavailable, "registry-lb: no ready member in %s after waiting for %v",
			p.options.Backends, waited)
	case f.last == nil:
		return status.Errorf(codes.Unavailable, "registry-lb: no member in %s may be asked after waiting for %v",
			p.options.Backends, waited)
	default:
		return status.Errorf(codes.Unavailable, "registry-lb: none of the %d members in %s could be reached within %v; the last was %v",
			len(current.all), p.options.Backends, waited, f.last)
	}
}

func errStopping() error {
	return status.Error(codes.Unavailable, "registry-lb is stopping")
}
