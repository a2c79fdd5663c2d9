// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/stretchr/testify/require"
)

// TestAResumedReplicaGetsNothingBack has a replica of its own store hang while calls are in flight there. When it goes on
// it carries them out, and then it has copies that are as new as those of the replicas that hold the NSEs now.
func TestAResumedReplicaGetsNothingBack(t *testing.T) {
	const keys = 600
	c := newPartitionedCluster(t, 3, 1, time.Hour)
	client := newDirect(t, c.balancers[0].addr)
	all := client.registerAll(t, keys)

	stopped := c.replicas[2].current()
	stopped.signal(syscall.SIGSTOP)
	before := refreshAll(t, client, all)
	stopped.signal(syscall.SIGCONT)
	pause(t.Context(), recovery)
	after := refreshAll(t, client, all)

	moved := 0
	for i := range all {
		if holder(before[i]) != holder(after[i]) {
			moved++
		}
	}
	require.Zero(t, moved, "of %d keys that moved although their holders were there", keys)
}

// refreshAll refreshes all NSEs, many of them at once, and returns what the registry made of them.
func refreshAll(t *testing.T, client *direct, all []*registry.NetworkServiceEndpoint) []*registry.NetworkServiceEndpoint {
	t.Helper()
	const atATime = 64
	answers, errs := make([]*registry.NetworkServiceEndpoint, len(all)), make([]error, len(all))
	var group sync.WaitGroup
	for first := range atATime {
		group.Go(func() {
			for i := first; i < len(all); i += atATime {
				nse := all[i].Clone()
				nse.ExpirationTime = nil // as the SDK's client does
				answers[i], errs[i] = client.register(t.Context(), nse)
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	return answers
}
