// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// eachStore runs a scenario with members of both kinds.
func eachStore(t *testing.T, scenario func(t *testing.T, store proxy.Store)) {
	t.Helper()
	for _, store := range []proxy.Store{proxy.SharedStore, proxy.PartitionedStore} {
		t.Run(string(store), func(t *testing.T) {
			t.Parallel()
			scenario(t, store)
		})
	}
}

// These are short courses of events that random ones have found to be difficult, each with a few dozen NSEs, so that
// the ring gives some of them to each member.

func TestAnNSEStartsAnewElsewhere(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store proxy.Store) {
		t.Helper()
		w, err := newWorld(setting{store: store, members: 1, balancers: 2, endpoints: 40})
		require.NoError(t, err)
		defer w.close()
		first, second := w.balancers[0], w.balancers[1]
		for _, e := range w.endpoints {
			require.NoError(t, w.register(first, e))
		}
		require.NoError(t, w.settle())
		require.NoError(t, w.scaleUp())
		for _, e := range w.endpoints {
			require.NoError(t, w.unregister(second, e))
			require.NoError(t, w.register(second, e))
		}
		require.NoError(t, w.settle(), "what the first balancer knows of its own traffic is out of date")
		for _, e := range w.endpoints {
			require.NoError(t, w.register(first, e))
		}
		require.NoError(t, w.check())
		require.NoError(t, w.audit())
	})
}

func TestAnNSEStartsAnewThroughAnotherBalancer(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store proxy.Store) {
		t.Helper()
		w, err := newWorld(setting{store: store, members: 3, balancers: 2, endpoints: 40})
		require.NoError(t, err)
		defer w.close()
		first, second := w.balancers[0], w.balancers[1]
		for _, e := range w.endpoints {
			require.NoError(t, w.register(first, e))
			require.NoError(t, w.unregister(first, e))
			require.NoError(t, w.register(second, e))
		}
		require.NoError(t, w.settle(), "the first balancer has unregistered them, and the second has registered them again")
		require.NoError(t, w.scaleUp())
		require.NoError(t, w.check())
		require.NoError(t, w.audit())
	})
}

func TestAReadyBalancerKnowsAllHolders(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store proxy.Store) {
		t.Helper()
		w, err := newWorld(setting{store: store, members: 1, balancers: 1, endpoints: 40})
		require.NoError(t, err)
		defer w.close()
		for _, e := range w.endpoints {
			require.NoError(t, w.register(w.balancers[0], e))
		}
		for i := range 20 {
			if i == 10 {
				require.NoError(t, w.scaleUp())
			}
			// A start that takes longer than patience is a failure too.
			require.NoError(t, w.addBalancer())
			for _, e := range w.endpoints {
				require.NoError(t, w.heard(w.balancers[1], e))
			}
			w.removeBalancer(1)
		}
	})
}

func TestAMemberComesBackUnderItsName(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store proxy.Store) {
		t.Helper()
		w, err := newWorld(setting{store: store, members: 3, balancers: 2, endpoints: 40})
		require.NoError(t, err)
		defer w.close()
		first, second := w.balancers[0], w.balancers[1]
		for _, e := range w.endpoints {
			require.NoError(t, w.register(first, e))
		}
		require.NoError(t, w.settle())
		w.crash("registry-1")
		for _, e := range w.endpoints {
			require.NoError(t, w.register(second, e)) // some are held by another member now
		}
		require.NoError(t, w.restart("registry-1"))
		require.NoError(t, w.settle())
		for _, e := range w.endpoints {
			require.NoError(t, w.register(first, e))
		}
		require.NoError(t, w.check())
		require.NoError(t, w.audit())
	})
}

// The second balancer hears of a newcomer five seconds later than the first one, for which its delay of joining is over
// by then: as much as views may differ, and more than the delay.
func TestANewcomerThatOnlyOneBalancerKnows(t *testing.T) {
	t.Parallel()
	w, err := newWorld(setting{store: proxy.SharedStore, members: 2, balancers: 2, endpoints: 40})
	require.NoError(t, err)
	defer w.close()
	first, second := w.balancers[0], w.balancers[1]
	w.delays = []int{0, 1}
	require.NoError(t, w.scaleUp())
	newcomer, moved := "registry-2", 0
	for _, e := range w.endpoints {
		require.NoError(t, w.register(first, e))
		if e.holder.Name == newcomer {
			moved++
		}
	}
	require.Positive(t, moved)

	// A call about a key of the newcomer waits for it, if the event was faster than the call, as it is for clients that
	// come back with a new connection.
	require.NoError(t, eventually(func() error {
		for _, e := range w.endpoints {
			if route, _ := second.proxy.Locate(shard.NSEKey(e.name)); e.holder.Name == newcomer && !route.Awaited {
				return errors.New(e.name + " is not awaited")
			}
		}
		return nil
	}))
	answers := make(chan error, len(w.endpoints))
	for _, e := range w.endpoints {
		go func() { answers <- w.register(second, e) }()
	}
	for range len(w.endpoints) - moved {
		require.NoError(t, <-answers)
	}
	w.stepLate()
	w.stepLate()
	for range moved {
		require.NoError(t, <-answers)
	}
	require.NoError(t, w.settle())
	require.NoError(t, w.check())
	require.NoError(t, w.audit())
}
