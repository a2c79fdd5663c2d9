// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/e2e/internal/kubestore"
)

const (
	defaultDuration = 2 * time.Minute
	defaultClients  = 200
)

// setting reads a number from the environment.
func setting(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text, ok := os.LookupEnv(variable)
	if !ok {
		return otherwise
	}
	value, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "%s", variable)
	return value
}

func TestChaos(t *testing.T) {
	seed := setting(t, "CHAOS_SEED", rand.Uint64())
	clients := int(setting(t, "CHAOS_CLIENTS", defaultClients))
	duration := defaultDuration
	if text, ok := os.LookupEnv("CHAOS_DURATION"); ok {
		var err error
		duration, err = time.ParseDuration(text)
		require.NoError(t, err, "CHAOS_DURATION")
	}
	t.Logf("CHAOS_SEED=%d CHAOS_DURATION=%v CHAOS_CLIENTS=%d", seed, duration, clients)

	c := newCluster(t, 8, 2, expiry)
	l := startLoad(t, c, seed, clients, usual())
	havoc := newHavoc(c, l.history, rand.New(rand.NewPCG(seed, 0)))
	timed, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	havoc.run(timed)
	l.finish(t)

	report(t, judge(l.history, havoc.faults))
	assert.Empty(t, c.store.EndpointNames(), "NSEs that nobody registers any more are left in the store")
	havoc.log(t)
}

// TestTheCheckerFindsFaults has clients connect to the replicas in turn, as a Service without registry-lb has them: the
// history must not pass.
func TestTheCheckerFindsFaults(t *testing.T) {
	for name, row := range map[string]struct {
		store  func(t *testing.T) string
		stop   bool
		broken []string
	}{
		"replicas that share nothing, and no fault at all": {
			store:  func(*testing.T) string { return inMemory },
			broken: []string{promiseOrder, promiseWatch},
		},
		"replicas that share a store, one of which hangs": {
			store: func(t *testing.T) string {
				t.Helper()
				return serveStore(t, kubestore.New(kubestore.Options{}))
			},
			stop:   true,
			broken: []string{promiseAnswer, promiseWatch},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPlainCluster(t, 3, row.store(t), expiry)
			l := startLoad(t, c, 1, 30, rhythm{
				step:     time.Second,
				hold:     [2]time.Duration{time.Second, 3 * time.Second},
				rest:     [2]time.Duration{100 * time.Millisecond, 300 * time.Millisecond},
				longHold: settle + 10*time.Second,
				longRest: time.Second,
			})
			pause(t.Context(), 3*time.Second)
			if row.stop {
				c.replicas[0].current().signal(syscall.SIGSTOP)
			}
			pause(t.Context(), settle+5*time.Second)
			l.finish(t)
			broken := make(map[string]int)
			for _, v := range judge(l.history, nil) {
				broken[v.promise]++
			}
			t.Logf("broken promises: %v", broken)
			for _, promise := range row.broken {
				require.Positive(t, broken[promise], "%s", promise)
			}
		})
	}
}

// load is clients at work, and watchers.
type load struct {
	history *history
	// tired ends the work of clients, who then unregister.
	tired context.CancelFunc
	// end ends what clients leave open, and watches.
	end      context.CancelFunc
	clients  sync.WaitGroup
	watchers sync.WaitGroup
}

// startLoad starts clients of the registry, and two watchers for each network service.
func startLoad(t *testing.T, c *cluster, seed uint64, clients int, rhythm rhythm) *load {
	t.Helper()
	l := &load{history: newHistory()}
	var ctx, work context.Context
	work, l.end = context.WithCancel(silent(context.Background()))
	ctx, l.tired = context.WithCancel(work)
	t.Cleanup(func() {
		l.end()
		l.clients.Wait()
		l.watchers.Wait()
	})
	for i := range clients {
		client := &client{
			number:  i,
			among:   clients,
			client:  newSDKClient(work, t, nseName(i), c.service.addr(), l.history),
			history: l.history,
			random:  rand.New(rand.NewPCG(seed, uint64(i)+1)),
			rhythm:  rhythm,
		}
		l.clients.Go(func() { client.live(ctx, work) })
	}
	for i := range 2 * services {
		watcher := &client{client: newSDKClient(work, t, "watcher", c.service.addr(), l.history)}
		l.watchers.Go(func() { watcher.follow(work, serviceName(i)) })
	}
	return l
}

// finish has all clients unregister, waits until watches must have told so, looks for all NSEs once more, and ends.
func (l *load) finish(t *testing.T) {
	t.Helper()
	l.tired()
	l.clients.Wait()
	pause(t.Context(), settle+2*time.Second)
	l.end()
	l.watchers.Wait()
	l.history.mu.Lock()
	defer l.history.mu.Unlock()
	failed := 0
	var slowest time.Duration
	for _, c := range l.history.calls {
		if c.err != nil {
			failed++
		}
		slowest = max(slowest, c.end-c.start)
	}
	t.Logf("%d calls, %d of them failed, the slowest took %v; %d watches",
		len(l.history.calls), failed, slowest.Round(time.Millisecond), len(l.history.sessions))
}
