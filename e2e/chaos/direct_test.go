// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
)

// direct is a client without the SDK, which would repeat calls and so hide what is measured here.
type direct struct {
	registry.NetworkServiceEndpointRegistryClient
	identity member.Identity
}

// newDirect returns a client with a connection of its own, which ends with the test.
func newDirect(tb testing.TB, addr string, options ...grpc.DialOption) *direct {
	tb.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, conn.Close()) })
	identity, err := member.Token(member.ID("client"))
	require.NoError(tb, err)
	return &direct{NetworkServiceEndpointRegistryClient: registry.NewNetworkServiceEndpointRegistryClient(conn), identity: identity}
}

// register registers nse, or refreshes it if it has been registered before, and returns what the registry made of it.
func (d *direct) register(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*registry.NetworkServiceEndpoint, error) {
	ctx, cancel := context.WithTimeout(withIdentity(ctx, d.identity), callTimeout)
	defer cancel()
	return d.Register(ctx, nse)
}

// registerAll registers so many NSEs, several at a time.
func (d *direct) registerAll(tb testing.TB, count int) []*registry.NetworkServiceEndpoint {
	tb.Helper()
	const atATime = 16
	all := make([]*registry.NetworkServiceEndpoint, count)
	errs := make(chan error, atATime)
	var group sync.WaitGroup
	for first := range atATime {
		group.Go(func() {
			for i := first; i < count; i += atATime {
				nse, err := d.register(tb.Context(), &registry.NetworkServiceEndpoint{
					Name: fmt.Sprintf("nse-%05d", i), Url: url(1), NetworkServiceNames: []string{serviceName(i)},
				})
				if err != nil {
					errs <- err
					return
				}
				all[i] = nse
			}
		})
	}
	group.Wait()
	close(errs)
	require.NoError(tb, <-errs)
	return all
}

// times are how long something took, several times.
type times []time.Duration

// percentile returns the smallest time that so many percent do not exceed.
func (s times) percentile(percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

// report has a benchmark print the times in place of how long it took itself. The suffix tells several of them apart.
func (s times) report(b *testing.B, suffix string) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // which would be set-up and pauses
	for name, percent := range map[string]int{"p50": 50, "p99": 99, "max": 100} {
		b.ReportMetric(float64(s.percentile(percent).Microseconds())/1000, name+suffix+"-ms")
	}
}
