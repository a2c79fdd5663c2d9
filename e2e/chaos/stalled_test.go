// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

const (
	churning = 10000
	// churnRate is how many registrations there are in a second. It leaves the machine time: at its limit, times would
	// only tell how long the queue is.
	churnRate = 250
	// fillPhase is how long a stalled watch has to fill its queue: it holds the latest state of each NSE.
	fillPhase = 8 * time.Second
	// churnPhase is how long is measured with and without the stalled watch, in turn. Both phases together are shorter
	// than the time after which registry-lb cuts who reads nothing.
	churnPhase = 20 * time.Second
	phases     = 2
)

// BenchmarkStalledWatcher has one client that does not read a watch over everything, while NSEs change. It measures how
// long a Register of others takes without and with it (the goal is a p99 of 1.5 times as much), and how much memory
// registry-lb has once its queue is full, and how many times as much after thousands of changes more (goal: 1.1).
func BenchmarkStalledWatcher(b *testing.B) {
	for range b.N {
		c := newCluster(b, 2, 1, time.Hour)
		lb := c.balancers[0]
		client := newDirect(b, lb.addr)
		all := client.registerAll(b, churning)
		// The first full listing and watch of so many are over, and memory is what it will be.
		churn(b, client, all, churnPhase)

		const each = int(churnPhase/time.Second) * churnRate * phases
		without, with := make(times, 0, each), make(times, 0, each)
		var quiet, full, growth float64
		for range phases {
			without = append(without, churn(b, client, all, churnPhase)...)
			quiet = max(quiet, residentMiB(b, lb.current()))
			end := stall(b, lb.addr)
			churn(b, client, all, fillPhase) // not counted: the list of so many NSEs costs the replica its time
			before := residentMiB(b, lb.current())
			with = append(with, churn(b, client, all, churnPhase)...)
			growth = max(growth, residentMiB(b, lb.current())/before)
			full = max(full, before)
			end()
		}
		without.report(b, "-without")
		with.report(b, "-with")
		b.ReportMetric(float64(with.percentile(99))/float64(without.percentile(99)), "p99-ratio")
		b.ReportMetric(quiet, "MiB-without")
		b.ReportMetric(full, "MiB-with")
		b.ReportMetric(growth, "growth")
	}
}

// churn registers NSEs anew, one after the other, at a steady rate, and returns how long each took.
func churn(tb testing.TB, client *direct, all []*registry.NetworkServiceEndpoint, length time.Duration) times {
	tb.Helper()
	const workers = 8
	var mu sync.Mutex
	var took times
	errs := make(chan error, workers)
	ctx, cancel := context.WithTimeout(tb.Context(), length)
	defer cancel()
	var group sync.WaitGroup
	for first := range workers {
		group.Go(func() {
			ticker := time.NewTicker(workers * time.Second / churnRate)
			defer ticker.Stop()
			for i := first; ; i = (i + workers) % len(all) {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				nse, ok := proto.Clone(all[i]).(*registry.NetworkServiceEndpoint)
				if !ok {
					return
				}
				nse.Url = url(versionOf(nse) + 1)
				began := time.Now()
				again, err := client.register(context.WithoutCancel(ctx), nse)
				if err != nil {
					errs <- err
					return
				}
				all[i] = again
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	group.Wait()
	close(errs)
	require.NoError(tb, <-errs)
	return took
}

// stall opens a watch over everything that nobody reads, and returns what ends it.
func stall(tb testing.TB, addr string) (end func()) {
	tb.Helper()
	const window = 64 << 10 // the smallest; gRPC would make it larger by itself
	client := newDirect(tb, addr, grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window))
	ctx, cancel := context.WithCancel(withIdentity(tb.Context(), client.identity))
	stream, err := client.Find(ctx, &registry.NetworkServiceEndpointQuery{NetworkServiceEndpoint: new(registry.NetworkServiceEndpoint), Watch: true})
	require.NoError(tb, err)
	_, err = stream.Header()
	require.NoError(tb, err)
	return cancel
}

// residentMiB returns how much memory of a process is resident.
func residentMiB(tb testing.TB, p *process) float64 {
	tb.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(tb, err)
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			require.NoError(tb, err)
			return float64(kib) / 1024
		}
	}
	require.Fail(tb, "no VmRSS")
	return 0
}
