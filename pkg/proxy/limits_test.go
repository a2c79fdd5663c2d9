// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

// TestTooManyCallsAreRefused has one place, which each operation takes in turn; watches need none.
func TestTooManyCallsAreRefused(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, kind proxy.Store) {
		t.Helper()
		f := nseFlavour()
		m := startScripted(t, "a")
		front := startFront(t, proxy.Options{MaxCalls: 1, Store: kind}, m.Member)
		began, release := make(chan struct{}), make(chan struct{})
		slow := func(c *call) error {
			began <- struct{}{}
			<-release
			return obliging(c)
		}
		for _, op := range operations() {
			if !op.isUnary() && !op.isList() {
				continue
			}
			m.set(slow)
			done := make(chan error, 1)
			go func() { done <- op.do(t.Context(), f, front.cc).err }()
			await(t, began, op.name)
			m.set(obliging)
			for _, other := range operations() {
				if !other.isUnary() && !other.isList() {
					continue
				}
				err := other.do(within(t), f, front.cc).err
				requireRefused(t, err, "here")
			}
			w, err := f.find(within(t), front.cc, f.query("", true))
			require.NoError(t, err)
			_, err = w.Header()
			require.NoError(t, err)
			require.Empty(t, done)
			release <- struct{}{}
			require.NoError(t, await(t, done, op.name))
			require.NoError(t, op.do(within(t), f, front.cc).err, "there is room again")
		}
	})
}

// TestAFullMemberRefuses: calls about what another member holds are not refused.
func TestAFullMemberRefuses(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		if !op.isUnary() && !op.isList() {
			return // watches have no bound
		}
		members := startScripteds(t, "a", "b")
		front := startFront(t, proxy.Options{MaxMemberCalls: 1}, describe(members)...)
		began, release := make(chan string), make(chan struct{})
		for name, m := range members {
			m.set(func(c *call) error {
				began <- name
				<-release
				return obliging(c)
			})
		}
		done := make(chan error, 1)
		go func() { done <- op.do(within(t), f, front.cc).err }()
		full := await(t, began, op.name)
		requireRefused(t, op.do(within(t), f, front.cc).err, "at member "+full)
		for name, m := range members {
			if name == full {
				continue
			}
			m.set(obliging)
			_, err := f.register(within(t), front.cc, f.item(front.nameAt(t, f, name, "other")))
			require.NoError(t, err)
		}
		close(release)
		require.NoError(t, await(t, done, op.name))
	})
}

// requireRefused checks that a call was refused because there were too many, and when the client may come back.
func requireRefused(t *testing.T, err error, where string) {
	t.Helper()
	requireCode(t, codes.ResourceExhausted, err)
	require.ErrorContains(t, err, "too many calls in flight "+where+", try again in 500ms")
	details := status.Convert(err).Details()
	require.Len(t, details, 1)
	require.Equal(t, 500*time.Millisecond, details[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration())
}
