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
func newDirect(t *testing.T, addr string, options ...grpc.DialOption) *direct {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	identity, err := member.Token(member.ID("client"))
	require.NoError(t, err)
	return &direct{NetworkServiceEndpointRegistryClient: registry.NewNetworkServiceEndpointRegistryClient(conn), identity: identity}
}

// register registers nse, or refreshes it if it has been registered before, and returns what the registry made of it.
func (d *direct) register(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*registry.NetworkServiceEndpoint, error) {
	ctx, cancel := context.WithTimeout(withIdentity(ctx, d.identity), callTimeout)
	defer cancel()
	return d.Register(ctx, nse)
}

// registerAll registers so many NSEs, several at a time.
func (d *direct) registerAll(t *testing.T, count int) []*registry.NetworkServiceEndpoint {
	t.Helper()
	const atATime = 16
	all := make([]*registry.NetworkServiceEndpoint, count)
	errs := make(chan error, atATime)
	var group sync.WaitGroup
	for first := range atATime {
		group.Go(func() {
			for i := first; i < count; i += atATime {
				nse, err := d.register(t.Context(), &registry.NetworkServiceEndpoint{
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
	require.NoError(t, <-errs)
	return all
}

// times are how long something took, several times.
type times []time.Duration

// percentile returns the smallest time that so many percent do not exceed.
func (s times) percentile(percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

// String shows the times for people.
func (s times) String() string {
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	return fmt.Sprintf("p50 %v, p99 %v, slowest %v, of %d", round(s.percentile(50)), round(s.percentile(99)), round(s.percentile(100)), len(s))
}
