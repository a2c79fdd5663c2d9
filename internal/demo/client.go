// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/chains/client"
	"github.com/networkservicemesh/sdk/pkg/registry/common/retry"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// callTimeout bounds one call of a client, retries included.
	callTimeout = 10 * time.Second
	// tryTimeout bounds one try of it. Registries take an NSE for gone this long before its lifetime ends, so it must
	// be shorter than the third of it that is left at a refresh.
	tryTimeout = 600 * time.Millisecond
	// parallel is how many clients call at the same time.
	parallel = 16
)

// newClient returns the SDK's registry client as NSM's commands make it: it connects anew for each call, refreshes what
// it has registered, watches it, and registers it again when the watch ends. It lives until ctx ends.
func newClient(ctx context.Context, name string, front *url.URL) (registry.NetworkServiceEndpointRegistryClient, error) {
	tokens, err := newTokens(name)
	if err != nil {
		return nil, err
	}
	return client.NewNetworkServiceEndpointRegistryClient(ctx,
		client.WithClientURL(front),
		client.WithNSERetryClient(retry.NewNetworkServiceEndpointRegistryClient(ctx, retry.WithTryTimeout(tryTimeout))),
		client.WithDialOptions(
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithPerRPCCredentials(plaintextCredentials{token.NewPerRPCCredentials(tokens)}),
			grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
			grpc.WithNoProxy(),
		),
	), nil
}

// find returns all NSEs that match, and an error unless the whole answer came.
func find(ctx context.Context, c registry.NetworkServiceEndpointRegistryClient, like *registry.NetworkServiceEndpoint) ([]*registry.NetworkServiceEndpoint, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Find(ctx, &registry.NetworkServiceEndpointQuery{NetworkServiceEndpoint: like})
	if err != nil {
		return nil, err
	}
	var nses []*registry.NetworkServiceEndpoint
	for {
		response, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nses, nil
		case err != nil:
			return nil, err
		}
		nses = append(nses, response.GetNetworkServiceEndpoint())
	}
}

// endpoint is an NSE with the client that registers it.
type endpoint struct {
	client registry.NetworkServiceEndpointRegistryClient
	nse    *registry.NetworkServiceEndpoint
}

// register registers the NSE, or refreshes it.
func (e *endpoint) register(ctx context.Context) error {
	nse, err := e.client.Register(ctx, e.nse)
	if err != nil {
		return fmt.Errorf("register %s: %w", e.nse.GetName(), err)
	}
	// As in a refresh that the SDK's client makes on its own: a registry does not go beyond a time that it is given.
	nse.ExpirationTime = nil
	e.nse = nse
	return nil
}

func (e *endpoint) unregister(ctx context.Context) error {
	if _, err := e.client.Unregister(ctx, e.nse); err != nil {
		return fmt.Errorf("unregister %s: %w", e.nse.GetName(), err)
	}
	return nil
}

// crowd is many NSEs, each with a client of its own, as in a mesh.
type crowd []*endpoint

// newCrowd returns n NSEs that use front until ctx ends.
func newCrowd(ctx context.Context, n int, front *url.URL) (crowd, error) {
	c := make(crowd, 0, n)
	for i := range n {
		name := fmt.Sprintf("nse-%d", i)
		owner, err := newClient(ctx, name, front)
		if err != nil {
			return nil, err
		}
		c = append(c, &endpoint{owner, &registry.NetworkServiceEndpoint{Name: name, NetworkServiceNames: []string{"demo"}}})
	}
	return c, nil
}

// names returns the names of the NSEs.
func (c crowd) names() []string {
	names := make([]string, 0, len(c))
	for _, e := range c {
		names = append(names, e.nse.GetName())
	}
	return names
}

// each does do for all NSEs, several at the same time, and tells progress how many are done. The first error ends it.
func (c crowd) each(ctx context.Context, told func(done int), do func(ctx context.Context, e *endpoint) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	finished := make(chan struct{}, len(c))
	for _, e := range c {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			err := do(ctx, e)
			finished <- struct{}{}
			return err
		})
		told(len(finished))
	}
	err := group.Wait()
	told(len(finished))
	return err
}
