// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	sdkregistry "github.com/networkservicemesh/sdk/pkg/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/chains/memory"
	"github.com/networkservicemesh/sdk/pkg/registry/core/adapters"
	"github.com/networkservicemesh/sdk/pkg/registry/core/chain"
	"github.com/networkservicemesh/sdk/pkg/tools/sandbox"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
	"github.com/networkservicemesh/registry-lb/internal/loopback"
	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// The members that each domain begins with.
const (
	registry0 = "registry-0"
	registry1 = "registry-1"
	registry2 = "registry-2"
)

// registries are a registry-lb and its members, where a domain of the sandbox has one registry.
type registries struct {
	t     *testing.T
	calls *recorder
	// hop makes registry-lb a hop in the NSM path, as with mutual TLS; without, metadata pass unchanged.
	hop bool
	// extra makes more options for the chains of one member; nil means none.
	extra func() []memory.Option

	// chains makes the registry of one life of a member.
	chains func(member.Life) member.Registry
	// members are those that live; stores are their registries, without the recorder.
	members map[string]*member.Member
	stores  map[member.Life]sdkregistry.Registry
	lives   int

	proxy   *proxy.Proxy
	running sync.WaitGroup
}

// newRegistries returns registries that start when the sandbox asks for a registry, and end with the test.
func newRegistries(t *testing.T, hop bool, extra func() []memory.Option) *registries {
	t.Helper()
	r := &registries{
		t:      t,
		calls:  newRecorder(),
		hop:    hop,
		extra:  extra,
		stores: make(map[member.Life]sdkregistry.Registry),
	}
	t.Cleanup(func() {
		for _, m := range r.members {
			m.Crash()
		}
		r.running.Wait()
		r.calls.verify(t)
	})
	return r
}

// supply starts a registry-lb that runs until ctx is done, and the members when it is the first one. The sandbox calls
// it again when it restarts "the registry"; members live on then.
func (r *registries) supply(
	ctx context.Context, _ token.GeneratorFunc, expiration time.Duration, proxyURL *url.URL, dialOptions ...grpc.DialOption,
) sdkregistry.Registry {
	if r.members == nil {
		// Members are those who know where other domains are asked for.
		r.chains = func(l member.Life) member.Registry {
			return func(ctx context.Context, generator token.GeneratorFunc) sdkregistry.Registry {
				options := []memory.Option{
					memory.WithDefaultExpiration(expiration),
					memory.WithProxyRegistryURL(proxyURL),
					memory.WithDialOptions(dialOptions...),
				}
				if r.extra != nil {
					options = append(options, r.extra()...)
				}
				r.stores[l] = memory.NewServer(ctx, generator, options...)
				return noted(r.calls, l, r.stores[l])
			}
		}
		r.members = make(map[string]*member.Member)
		for _, name := range []string{registry0, registry1, registry2} {
			r.start(name) //nolint:contextcheck // members outlive this registry-lb
		}
	}
	options := proxy.Options{
		Backends:      "the sandbox",
		Store:         proxy.PartitionedStore,
		ProbeInterval: 200 * time.Millisecond,
		// A member that ends closes its connections, and that is seen at once. None hangs, except for want of a processor.
		ProbeTimeout: patience,
		// An NSE that expires soon after it registered is dropped by a listing only: its deletion may be old news.
		ListingInterval: time.Second,
		DialOptions:     []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	}
	if r.hop {
		tokens := tokensOf(r.t, "registry-lb")
		options.DialOptions = sandbox.DialOptions(sandbox.WithTokenGenerator(tokens))
		options.Hop = &proxy.Hop{Tokens: tokens}
	}
	p, err := proxy.New(options)
	require.NoError(r.t, err)
	r.proxy = p
	r.running.Go(func() { _ = p.Run(ctx) })
	r.tell() //nolint:contextcheck // the connections to members live as long as the proxy runs
	// In a cluster nobody is sent to a registry-lb that is not ready.
	eventually(r.t, func() bool { return len(p.NotReady()) == 0 }, "registry-lb is not ready")
	return sdkregistry.NewServer(
		chain.NewNetworkServiceRegistryServer(passNS{r.calls}, p.NetworkServiceRegistryServer()),
		chain.NewNetworkServiceEndpointRegistryServer(passNSE{r.calls}, p.NetworkServiceEndpointRegistryServer()),
	)
}

// start starts a life of a member; registry-lb is not told yet.
func (r *registries) start(name string) {
	r.t.Helper()
	r.lives++
	l := member.Life{Name: name, UID: strconv.Itoa(r.lives)}
	m, err := member.Start(member.Options{Name: l.Name, UID: l.UID, Address: loopback.Address(), Registry: r.chains(l)})
	require.NoError(r.t, err)
	r.members[name] = m
}

// crash ends a member as a lost process ends; registry-lb has to find out.
func (r *registries) crash(name string) {
	r.t.Helper()
	m := r.members[name]
	require.NotNil(r.t, m, "no member %s", name)
	r.calls.leaves(m.Life())
	m.Crash()
	delete(r.members, name)
	delete(r.stores, m.Life())
}

// add starts another member and tells registry-lb.
func (r *registries) add(name string) {
	r.t.Helper()
	r.start(name)
	r.tell()
}

// remove has registry-lb send no calls to a member any more, and then ends it.
func (r *registries) remove(name string) {
	r.t.Helper()
	m := r.members[name]
	require.NotNil(r.t, m, "no member %s", name)
	r.calls.leaves(m.Life())
	delete(r.members, name)
	r.tell()
	m.Stop()
	delete(r.stores, m.Life())
}

// restart has a member crash and come back with nothing.
func (r *registries) restart(name string) {
	r.t.Helper()
	r.crash(name)
	r.add(name)
}

// tell tells registry-lb which members there are.
func (r *registries) tell() {
	members := make([]shard.Member, 0, len(r.members))
	for _, name := range slices.Sorted(maps.Keys(r.members)) {
		members = append(members, r.members[name].Member)
	}
	r.proxy.SetMembers(members)
}

// nameAt returns a name that begins with prefix for an NSE that nobody holds and that registry-lb would give to this
// member.
func (r *registries) nameAt(at, prefix string) string {
	r.t.Helper()
	for i := range 1000 {
		name := fmt.Sprintf("%s-%d", prefix, i)
		// What is behind an @ is not known here, but it is part of the key.
		if begin, domain, ok := strings.Cut(prefix, "@"); ok {
			name = fmt.Sprintf("%s-%d@%s", begin, i, domain)
		}
		if route, ok := r.proxy.Locate(shard.NSEKey(name)); ok && route.Member == at && route.Reason == shard.ReasonRing {
			return name
		}
	}
	require.FailNow(r.t, "no name found", "for member %s and prefix %s", at, prefix)
	return ""
}

// holders returns the names of the members whose store has the NSE, sorted.
func (r *registries) holders(ctx context.Context, nse string) []string {
	r.t.Helper()
	holders := []string{}
	for l, store := range r.stores {
		client := adapters.NetworkServiceEndpointServerToClient(store.NetworkServiceEndpointRegistryServer())
		if len(find(ctx, r.t, client, nse)) > 0 {
			holders = append(holders, l.Name)
		}
	}
	slices.Sort(holders)
	return holders
}

// find returns the NSEs of this name; an empty one stands for all.
func find(ctx context.Context, t *testing.T, client registry.NetworkServiceEndpointRegistryClient, name string) []*registry.NetworkServiceEndpoint {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Find(ctx, &registry.NetworkServiceEndpointQuery{
		NetworkServiceEndpoint: &registry.NetworkServiceEndpoint{Name: name},
	})
	require.NoError(t, err)
	var found []*registry.NetworkServiceEndpoint
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		found = append(found, resp.GetNetworkServiceEndpoint())
	}
}

// tokensOf returns the token generator of the pod called name.
func tokensOf(t *testing.T, name string) token.GeneratorFunc {
	t.Helper()
	identity, err := member.Token(member.ID(name))
	require.NoError(t, err)
	return identity.Generate
}
