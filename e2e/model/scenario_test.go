// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
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
