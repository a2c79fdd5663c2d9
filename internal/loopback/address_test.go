// SPDX-License-Identifier: Apache-2.0

package loopback_test

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/internal/loopback"
)

func TestAddressesAreUsedOnce(t *testing.T) {
	const many = 1000
	var mu sync.Mutex
	seen := make(map[string]struct{}, many)
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			addr := loopback.Address()
			mu.Lock()
			defer mu.Unlock()
			seen[addr] = struct{}{}
		})
	}
	all.Wait()
	require.Len(t, seen, many)
}

// The kernel must be able to give no one else the port, and to give it back at once.
func TestAddressCanBeListenedOnAgain(t *testing.T) {
	addr := loopback.Address()
	for range 3 {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", addr)
		require.NoError(t, err)
		require.Equal(t, addr, l.Addr().String())
		require.NoError(t, l.Close())
	}
}
