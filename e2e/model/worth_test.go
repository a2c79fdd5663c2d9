// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
)

// TestTheModelNoticesMovedKeys is the proof of the model's worth. Members that share one SPIFFE ID can't be told apart
// in path_ids, so a balancer that restarts falls back to the ring, and the ring gives living keys to members that came
// later. The model must complain about the first such call, and of nothing before.
func TestTheModelNoticesMovedKeys(t *testing.T) {
	t.Parallel()
	play := func(t *testing.T, id string, scaleUp bool) error {
		t.Helper()
		w, err := newWorld(setting{store: proxy.SharedStore, members: 2, balancers: 1, endpoints: 50, id: id})
		require.NoError(t, err)
		defer w.close()
		for _, e := range w.endpoints {
			require.NoError(t, w.register(w.balancers[0], e))
		}
		if scaleUp {
			require.NoError(t, w.scaleUp())
			require.NoError(t, w.scaleUp())
		}
		require.NoError(t, w.check())
		w.removeBalancer(0)
		require.NoError(t, w.addBalancer())
		for _, e := range w.endpoints {
			if err := w.register(w.balancers[0], e); err != nil {
				return err
			}
		}
		require.NoError(t, w.check())
		return w.audit()
	}
	one := member.ID("registry")
	t.Run("one identity for all, a scale-up, and a restart", func(t *testing.T) {
		t.Parallel()
		require.ErrorIs(t, play(t, one, true), errWrongMember)
	})
	t.Run("one identity for all, and a restart", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, play(t, one, false))
	})
	t.Run("identities of their own, a scale-up, and a restart", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, play(t, "", true))
	})
}

// TestTheModelNoticesTwoHolders is the same for views that differ: without a join delay, a balancer gives new keys to a
// newcomer of whom the other has not heard.
func TestTheModelNoticesTwoHolders(t *testing.T) {
	t.Parallel()
	play := func(t *testing.T, joinDelay time.Duration) error {
		t.Helper()
		w, err := newWorld(setting{store: proxy.SharedStore, members: 1, balancers: 2, endpoints: 20, joinDelay: joinDelay, holdJoins: joinDelay > 0})
		require.NoError(t, err)
		defer w.close()
		w.delays = []int{0, 1}
		require.NoError(t, w.scaleUp())
		for _, b := range w.balancers {
			for _, e := range w.endpoints {
				require.NoError(t, w.register(b, e))
			}
		}
		return w.check()
	}
	require.ErrorIs(t, play(t, 0), errWrongMember)
	require.NoError(t, play(t, joinDelay))
}
