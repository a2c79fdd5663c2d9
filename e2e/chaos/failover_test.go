// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
)

// TestFailoverTimes measures how long the keys of a lost replica are without an answer: from its loss to the first
// success of each of its keys, when all of them are refreshed at once. The members file goes on to list the replica, as
// Kubernetes does for the first 40 s.
func TestFailoverTimes(t *testing.T) {
	const (
		replicas = 8
		keys     = 100 * replicas
		rounds   = 3
	)
	for _, row := range []struct {
		name string
		lose func(*process)
		back func(*replica)
		goal time.Duration
	}{
		{
			name: "killed", goal: time.Second,
			lose: func(p *process) { p.signal(syscall.SIGKILL) },
			back: func(r *replica) {
				r.current().kill()
				r.start()
			},
		},
		{
			name: "stopped", goal: 3500 * time.Millisecond,
			lose: func(p *process) { p.signal(syscall.SIGSTOP) },
			back: func(r *replica) { r.current().signal(syscall.SIGCONT) },
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newCluster(t, replicas, 1, time.Hour)
			client := newDirect(t, c.balancers[0].addr)
			all := client.registerAll(t, keys)
			took := make(times, 0, keys)
			for i := range rounds {
				lost := c.replicas[i]
				var held []*registry.NetworkServiceEndpoint
				for _, nse := range all {
					if holder(nse) == member.ID(lost.name) {
						held = append(held, nse)
					}
				}
				require.NotEmpty(t, held, "%s holds nothing", lost.name)
				took = append(took, loseAndRefresh(t, client, held, func() { row.lose(lost.current()) })...)
				row.back(lost)
				// Keys must not move back, nor the next loss meet one that is not over.
				pause(t.Context(), recovery)
			}
			t.Logf("from the loss of a replica (%s) to the first success of each of its keys: %v", row.name, took)
			require.LessOrEqual(t, took.percentile(99), row.goal)
		})
	}
}

// loseAndRefresh refreshes all NSEs at once after a loss, each until it succeeds, and returns how long that took.
func loseAndRefresh(t *testing.T, client *direct, held []*registry.NetworkServiceEndpoint, lose func()) times {
	t.Helper()
	took := make(times, len(held))
	var group sync.WaitGroup
	lose()
	began := time.Now()
	for i, nse := range held {
		group.Go(func() {
			for time.Since(began) < callTimeout {
				if again, err := client.register(t.Context(), nse); err == nil {
					took[i] = time.Since(began)
					held[i].PathIds = again.GetPathIds()
					return
				}
				pause(t.Context(), 10*time.Millisecond)
			}
			took[i] = time.Since(began)
		})
	}
	group.Wait()
	return took
}

// holder returns the SPIFFE ID of the replica that answered: its is the last one in the path.
func holder(nse *registry.NetworkServiceEndpoint) string {
	ids := nse.GetPathIds()
	if len(ids) == 0 {
		return ""
	}
	return ids[len(ids)-1]
}
