// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// alwaysWell is how many replicas are left in peace at any time.
	alwaysWell = 4
	// recovery is how long a replica is left in peace after a fault.
	recovery = 3 * time.Second
	// graceful is more than a replica takes to end in good order.
	graceful = 10 * time.Second
)

// fault is what was done to one part.
type fault struct {
	what, to   string
	start, end time.Duration
	// gone is when a registry-lb had ended.
	gone time.Duration
}

// String describes the fault for people.
func (f *fault) String() string {
	return fmt.Sprintf("%9.3f - %9.3f %s %s", f.start.Seconds(), f.end.Seconds(), f.what, f.to)
}

const (
	killed     = "kill"
	stopped    = "stop"
	restarted  = "restart"
	blackholed = "blackhole"
	drained    = "drain"
	crashed    = "crash"
)

// havoc takes a cluster apart and puts it together again.
type havoc struct {
	cluster *cluster
	history *history
	random  *rand.Rand

	group sync.WaitGroup
	mu    sync.Mutex
	sick  map[*replica]bool
	// busy is set while a registry-lb is not there.
	busy   bool
	faults []*fault
}

func newHavoc(c *cluster, h *history, random *rand.Rand) *havoc {
	return &havoc{cluster: c, history: h, random: random, sick: make(map[*replica]bool)}
}

// run does something every few seconds until ctx ends, and returns when all is well again.
func (h *havoc) run(ctx context.Context) {
	defer h.group.Wait()
	whole := context.WithoutCancel(ctx) // what has begun is brought to its end
	for round := 0; pause(ctx, h.seconds(1, 4)); round++ {
		// The draws do not depend on the state of the cluster, so that a seed means the same faults.
		what, victim, listed := h.random.IntN(10), h.random.IntN(len(h.cluster.replicas)), h.random.IntN(2) == 0
		length, notice := h.seconds(1, 10), h.seconds(1, 4)
		switch {
		case round%12 == 5:
			h.balancer(whole, round/12%len(h.cluster.balancers), drained, (*process).drain)
		case round == 14:
			h.balancer(whole, 0, crashed, (*process).kill)
		case what < 3:
			h.replica(whole, victim, killed, listed, notice, func(ctx context.Context, r *replica) {
				r.current().kill()
				pause(ctx, length)
				r.start()
			})
		case what < 6:
			h.replica(whole, victim, stopped, listed, notice, func(ctx context.Context, r *replica) {
				r.current().signal(syscall.SIGSTOP)
				pause(ctx, length)
				r.current().signal(syscall.SIGCONT)
			})
		case what < 8:
			// Who restarts in good order is no longer listed from the beginning.
			h.replica(whole, victim, restarted, listed, 0, func(ctx context.Context, r *replica) {
				r.current().terminate(graceful)
				pause(ctx, length/2)
				r.start()
			})
		default:
			h.replica(whole, victim, blackholed, listed, notice, func(ctx context.Context, r *replica) {
				r.relay.blackhole()
				pause(ctx, length)
				r.relay.restore()
			})
		}
	}
}

// drain ends a registry-lb as Kubernetes does.
func (p *process) drain() { p.terminate(balancerStop) }

// replica does something to the replica with this number, or the next one that is well. noticed says that Kubernetes
// notices, after a while, and that the members file says so; else it lists the replica all the time.
func (h *havoc) replica(ctx context.Context, number int, what string, noticed bool, after time.Duration, do func(context.Context, *replica)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.cluster.replicas
	if len(all)-len(h.sick) <= alwaysWell {
		return
	}
	for h.sick[all[number]] {
		number = (number + 1) % len(all)
	}
	r := all[number]
	h.sick[r] = true
	f := h.note(what, r.name)
	over, done := context.WithCancel(ctx)
	h.group.Go(func() {
		if noticed && pause(over, after) {
			h.cluster.members.set(r.relay.addr(), false)
			<-over.Done()
			h.cluster.members.set(r.relay.addr(), true)
		}
	})
	h.group.Go(func() {
		defer done()
		do(ctx, r)
		h.over(f)
		done()
		pause(ctx, recovery)
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.sick, r)
	})
}

// balancer ends a registry-lb and starts it again, one at a time.
func (h *havoc) balancer(ctx context.Context, number int, what string, end func(*process)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy {
		return
	}
	h.busy = true
	b := h.cluster.balancers[number]
	f := h.note(what, fmt.Sprintf("registry-lb-%d", number))
	h.group.Go(func() {
		end(b.current())
		h.mu.Lock()
		f.gone = h.history.now()
		h.mu.Unlock()
		b.start()
		b.awaitReady(ctx)
		h.over(f)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.busy = false
	})
}

// note notes the beginning of a fault. The lock is held.
func (h *havoc) note(what, to string) *fault {
	f := &fault{what: what, to: to, start: h.history.now()}
	h.faults = append(h.faults, f)
	return f
}

func (h *havoc) over(f *fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.end = h.history.now()
}

func (h *havoc) seconds(from, to float64) time.Duration {
	return time.Duration((from + h.random.Float64()*(to-from)) * float64(time.Second))
}

// log tells what was done.
func (h *havoc) log(t *testing.T) {
	t.Helper()
	counts := make(map[string]int)
	for _, f := range h.faults {
		counts[f.what]++
	}
	t.Logf("faults: %v", counts)
	if t.Failed() {
		for _, f := range h.faults {
			t.Log(f)
		}
	}
}

// during returns the faults of these kinds that overlap a time.
func during(faults []*fault, start, end time.Duration, kinds ...string) []*fault {
	var found []*fault
	for _, f := range faults {
		if slices.Contains(kinds, f.what) && f.start <= end && f.end >= start {
			found = append(found, f)
		}
	}
	return found
}
