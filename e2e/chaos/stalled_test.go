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

// TestStalledWatcher has one client that does not read a watch over everything, while NSEs change.
func TestStalledWatcher(t *testing.T) {
	c := newCluster(t, 2, 1, time.Hour)
	lb := c.balancers[0]
	client := newDirect(t, lb.addr)
	began := time.Now()
	all := client.registerAll(t, churning)
	t.Logf("%d NSEs registered in %v", churning, time.Since(began).Round(time.Second))
	// The first full listing and watch of so many are over, and memory is what it will be.
	churn(t, client, all, churnPhase)

	const each = int(churnPhase/time.Second) * churnRate * phases
	without, with := make(times, 0, each), make(times, 0, each)
	grown := make([]float64, 0, phases)
	for range phases {
		without = append(without, churn(t, client, all, churnPhase)...)
		quiet := residentKiB(t, lb.current())
		end := stall(t, lb.addr)
		churn(t, client, all, fillPhase) // not counted: the list of so many NSEs costs the replica its time
		full := residentKiB(t, lb.current())
		with = append(with, churn(t, client, all, churnPhase)...)
		later := residentKiB(t, lb.current())
		end()
		grown = append(grown, float64(later)/float64(full))
		t.Logf("resident memory of registry-lb: %d MiB without a stalled watch, %d MiB when its queue is full, %d MiB after %d registrations more",
			quiet>>10, full>>10, later>>10, int(churnPhase.Seconds())*churnRate)
	}
	t.Logf("Register without a stalled watch: %v", without)
	t.Logf("Register with a stalled watch:    %v", with)
	require.LessOrEqual(t, with.percentile(99), without.percentile(99)*3/2)
	for _, growth := range grown {
		require.Less(t, growth, 1.1, "what a stalled watch costs is bounded by the number of NSEs")
	}
}

// churn registers NSEs anew, one after the other, at a steady rate, and returns how long each took.
func churn(t *testing.T, client *direct, all []*registry.NetworkServiceEndpoint, length time.Duration) times {
	t.Helper()
	const workers = 8
	var mu sync.Mutex
	var took times
	errs := make(chan error, workers)
	ctx, cancel := context.WithTimeout(t.Context(), length)
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
	require.NoError(t, <-errs)
	return took
}

// stall opens a watch over everything that nobody reads, and returns what ends it.
func stall(t *testing.T, addr string) (end func()) {
	t.Helper()
	const window = 64 << 10 // the smallest; gRPC would make it larger by itself
	client := newDirect(t, addr, grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window))
	ctx, cancel := context.WithCancel(withIdentity(t.Context(), client.identity))
	stream, err := client.Find(ctx, &registry.NetworkServiceEndpointQuery{NetworkServiceEndpoint: new(registry.NetworkServiceEndpoint), Watch: true})
	require.NoError(t, err)
	_, err = stream.Header()
	require.NoError(t, err)
	return cancel
}

// residentKiB returns how much memory of a process is resident.
func residentKiB(t *testing.T, p *process) int {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			require.NoError(t, err)
			return kib
		}
	}
	require.Fail(t, "no VmRSS")
	return 0
}
