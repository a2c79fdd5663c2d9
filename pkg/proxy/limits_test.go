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
				requireCode(t, codes.ResourceExhausted, err)
				require.ErrorContains(t, err, "too many calls in flight here, try again in 500ms")
				details := status.Convert(err).Details()
				require.Len(t, details, 1)
				require.Equal(t, 500*time.Millisecond, details[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration())
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
