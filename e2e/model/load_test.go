// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

const (
	manyEndpoints = 20_000
	manyClients   = 16
	// readyGoal is how soon a balancer shall be ready again. Machines that test are slower than those that serve, and
	// the race detector makes them slower still, so it is printed and not required.
	readyGoal = 3 * time.Second
)

// TestRestartUnderLoad restarts registry-lb while the clients of 20,000 NSEs refresh, after a scale-up. No call may
// reach a member that does not hold the NSE.
func TestRestartUnderLoad(t *testing.T) {
	for _, store := range []proxy.Store{proxy.SharedStore, proxy.PartitionedStore} {
		t.Run(string(store), func(t *testing.T) {
			w, err := newWorld(setting{store: store, members: 4, balancers: 1, endpoints: manyEndpoints})
			require.NoError(t, err)
			defer w.close()
			l := load{world: w}
			l.balancer.Store(w.balancers[0])

			began := time.Now()
			l.each(l.refresh)
			l.require(t)
			t.Logf("registered %d NSEs in %v", manyEndpoints, time.Since(began).Round(time.Millisecond))
			require.NoError(t, w.scaleUp())

			var over atomic.Bool
			var clients sync.WaitGroup
			clients.Go(func() {
				for !over.Load() {
					l.each(func(e *endpoint) {
						if !over.Load() {
							l.refresh(e)
						}
					})
				}
			})
			before := l.calls.Load()
			require.NoError(t, eventually(l.more(before, manyClients)))

			w.removeBalancer(0)
			began = time.Now()
			require.NoError(t, w.addBalancer())
			ready := time.Since(began)
			l.balancer.Store(w.balancers[0])
			before = l.calls.Load()
			require.NoError(t, eventually(l.more(before, manyClients)))
			over.Store(true)
			clients.Wait()
			l.require(t)

			l.each(l.refresh)
			l.require(t)
			require.NoError(t, w.check())
			require.NoError(t, w.findAll(w.balancers[0], ""))
			t.Logf("%d calls, 0 at a wrong member, %d refused meanwhile; ready %v after the restart (goal: %v)",
				l.calls.Load(), l.refused.Load(), ready.Round(time.Millisecond), readyGoal)
		})
	}
}

// load are many clients at once. Each NSE has one of them at a time.
type load struct {
	*world
	balancer       atomic.Pointer[balancer]
	calls, refused atomic.Int64

	mu     sync.Mutex
	faults []error
}

// each does something with all NSEs, many at a time.
func (l *load) each(do func(*endpoint)) {
	next := make(chan *endpoint)
	var clients sync.WaitGroup
	for range manyClients {
		clients.Go(func() {
			for e := range next {
				do(e)
			}
		})
	}
	for _, e := range l.endpoints {
		next <- e
	}
	close(next)
	clients.Wait()
}

// refresh registers e, again and again while nobody listens.
func (l *load) refresh(e *endpoint) {
	err := eventually(func() error {
		err := l.register(l.balancer.Load(), e)
		if code := status.Code(err); code == codes.Unavailable || code == codes.Canceled {
			l.refused.Add(1)
			return err
		}
		if err != nil {
			l.fault(err)
		}
		return nil
	})
	l.calls.Add(1)
	if err != nil {
		l.fault(err)
	}
}

func (l *load) fault(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, err)
}

func (l *load) require(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.faults) > 0 {
		require.Failf(t, "calls went wrong", "%d of %d, the first: %v", len(l.faults), l.calls.Load(), l.faults[0])
	}
}

// more waits for n more calls than before.
func (l *load) more(before int64, n int64) func() error {
	return func() error {
		if l.calls.Load() < before+n {
			return errors.New("clients make no progress")
		}
		return nil
	}
}
