// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
)

// BenchmarkFailover measures how long the keys of a lost replica are without an answer: from its loss to the first
// success of each of its keys, when all of them are refreshed at once. The members file goes on to list the replica, as
// Kubernetes does for the first 40 s. One iteration is a cluster that loses three replicas one after the other; the
// goals for p99 are 1 s if the replica is killed, and 3.5 s if it hangs.
func BenchmarkFailover(b *testing.B) {
	const (
		replicas = 8
		keys     = 100 * replicas
		rounds   = 3
	)
	for _, row := range []struct {
		name string
		lose func(*process)
		back func(*replica)
	}{
		{
			name: "killed",
			lose: func(p *process) { p.signal(syscall.SIGKILL) },
			back: func(r *replica) {
				r.current().kill()
				r.start()
			},
		},
		{
			name: "stopped",
			lose: func(p *process) { p.signal(syscall.SIGSTOP) },
			back: func(r *replica) { r.current().signal(syscall.SIGCONT) },
		},
	} {
		b.Run(row.name, func(b *testing.B) {
			took := make(times, 0, keys)
			for range b.N {
				c := newCluster(b, replicas, 1, time.Hour)
				client := newDirect(b, c.balancers[0].addr)
				all := client.registerAll(b, keys)
				for _, lost := range c.replicas[:rounds] {
					held := slices.DeleteFunc(slices.Clone(all), func(nse *registry.NetworkServiceEndpoint) bool {
						return holder(nse) != member.ID(lost.name)
					})
					require.NotEmpty(b, held, "%s holds nothing", lost.name)
					took = append(took, loseAndRefresh(b, client, held, func() { row.lose(lost.current()) })...)
					row.back(lost)
					// Keys must not move back, nor the next loss meet one that is not over.
					pause(b.Context(), recovery)
				}
			}
			took.report(b, "")
		})
	}
}

// loseAndRefresh refreshes all NSEs at once after a loss, each until it succeeds, and returns how long that took.
func loseAndRefresh(tb testing.TB, client *direct, held []*registry.NetworkServiceEndpoint, lose func()) times {
	tb.Helper()
	took := make(times, len(held))
	var group sync.WaitGroup
	lose()
	began := time.Now()
	for i, nse := range held {
		group.Go(func() {
			for time.Since(began) < callTimeout {
				if again, err := client.register(tb.Context(), nse); err == nil {
					took[i] = time.Since(began)
					held[i].PathIds = again.GetPathIds()
					return
				}
				pause(tb.Context(), 10*time.Millisecond)
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
