// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	neturl "net/url"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	registryclient "github.com/networkservicemesh/sdk/pkg/registry/chains/client"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
)

const (
	// expiry is how long an NSE lives without a refresh. A replica's timer fires earlier by as long as the caller
	// would have waited; the client refreshes at two thirds. So a third of it must be more than callTimeout and what it
	// takes to find out that a replica hangs. In NSM it is a minute, too.
	expiry = time.Minute
	// callTimeout is what the clients give each call: at least 10 s, as is promised for.
	callTimeout = 11 * time.Second
	// services is how many network services there are.
	services = 6
	// rewrite is how likely it is that a client registers its NSE anew at each of its steps.
	rewrite = 0.15
)

// rhythm is how long a client keeps its NSE, and how long it does without.
type rhythm struct {
	step       time.Duration
	hold, rest [2]time.Duration
	// longHold and longRest take the place of hold and rest now and then: they are for what takes long to show, refreshes
	// and watches that were repaired.
	longHold, longRest time.Duration
}

// usual is how the clients of the chaos behave.
func usual() rhythm {
	return rhythm{
		step:     2500 * time.Millisecond,
		hold:     [2]time.Duration{2 * time.Second, 8 * time.Second},
		rest:     [2]time.Duration{500 * time.Millisecond, 3 * time.Second},
		longHold: 55 * time.Second,
		longRest: 15 * time.Second,
	}
}

// client is a program with one NSE, and NSM's SDK under it.
type client struct {
	number int
	among  int
	client registry.NetworkServiceEndpointRegistryClient
	// history is told which calls failed; the rest it knows from the wire.
	history *history
	random  *rand.Rand
	rhythm  rhythm
	// version is that of the last registration.
	version int
}

func nseName(number int) string { return fmt.Sprintf("nse-%03d", number) }

func serviceName(number int) string { return fmt.Sprintf("service-%d", number%services) }

// newSDKClient returns a client as NSM's commands make them. It ends with ctx.
func newSDKClient(ctx context.Context, t *testing.T, name, addr string, h *history) registry.NetworkServiceEndpointRegistryClient {
	t.Helper()
	identity, err := member.Token(member.ID(name))
	require.NoError(t, err)
	return registryclient.NewNetworkServiceEndpointRegistryClient(ctx,
		registryclient.WithClientURL(&neturl.URL{Scheme: "tcp", Host: addr}),
		registryclient.WithDialTimeout(callTimeout),
		registryclient.WithDialOptions(
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithBlock(), //nolint:staticcheck // as NSM's commands do
			grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
			// gRPC sends no credentials over plain text, so the token is sent as the metadata that it is.
			grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, resp any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return invoke(withIdentity(ctx, identity), method, req, resp, conn, opts...)
			}),
			grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				return open(withIdentity(ctx, identity), desc, conn, method, opts...)
			}),
		),
		registryclient.WithNSEAdditionalFunctionality(recorder{history: h}),
	)
}

// withIdentity has a call carry an identity.
func withIdentity(ctx context.Context, identity member.Identity) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	return metadata.NewOutgoingContext(ctx, metadata.Join(md, identity.Metadata()))
}

// silent returns a context in which the SDK logs nothing.
func silent(ctx context.Context) context.Context { return log.WithLog(ctx, log.Empty()) }

// live registers, finds and unregisters until ctx ends, and leaves nothing behind then.
func (c *client) live(ctx, work context.Context) {
	// Not all at once.
	if !pause(ctx, c.between([2]time.Duration{0, c.rhythm.rest[1]})) {
		return
	}
	for ctx.Err() == nil {
		c.register(work)
		c.find(work, c.number)
		c.hold(ctx, work)
		c.unregister(work)
		c.find(work, c.number)
		rest := c.between(c.rhythm.rest)
		if c.random.IntN(8) == 0 {
			rest = c.rhythm.longRest
		}
		pause(ctx, rest)
	}
}

// hold keeps the NSE registered for a while.
func (c *client) hold(ctx, work context.Context) {
	hold := c.between(c.rhythm.hold)
	if c.random.IntN(6) == 0 {
		hold = c.rhythm.longHold
	}
	over, cancel := context.WithTimeout(ctx, hold)
	defer cancel()
	for pause(over, c.between([2]time.Duration{c.rhythm.step / 2, c.rhythm.step * 3 / 2})) {
		if c.random.Float64() < rewrite {
			c.register(work)
			c.find(work, c.number)
			continue
		}
		c.find(work, c.random.IntN(c.among))
	}
}

func (c *client) register(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c.version++
	start := c.history.now()
	_, err := c.client.Register(ctx, &registry.NetworkServiceEndpoint{
		Name:                nseName(c.number),
		Url:                 url(c.version),
		NetworkServiceNames: []string{serviceName(c.number)},
	})
	c.history.failed(register, nseName(c.number), start, err)
}

func (c *client) unregister(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	start := c.history.now()
	_, err := c.client.Unregister(ctx, &registry.NetworkServiceEndpoint{Name: nseName(c.number)})
	c.history.failed(unregister, nseName(c.number), start, err)
}

func (c *client) find(ctx context.Context, number int) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	start := c.history.now()
	stream, err := c.client.Find(ctx, &registry.NetworkServiceEndpointQuery{
		NetworkServiceEndpoint: &registry.NetworkServiceEndpoint{Name: nseName(number)},
	})
	c.history.failed(find, nseName(number), start, err)
	if err == nil {
		registry.ReadNetworkServiceEndpointList(stream)
	}
}

// follow watches a network service until ctx ends.
func (c *client) follow(ctx context.Context, service string) {
	stream, err := c.client.Find(ctx, &registry.NetworkServiceEndpointQuery{
		NetworkServiceEndpoint: &registry.NetworkServiceEndpoint{NetworkServiceNames: []string{service}},
		Watch:                  true,
	})
	if err != nil {
		return
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return
		}
	}
}

func (c *client) between(bounds [2]time.Duration) time.Duration {
	return bounds[0] + time.Duration(c.random.Float64()*float64(bounds[1]-bounds[0]))
}
