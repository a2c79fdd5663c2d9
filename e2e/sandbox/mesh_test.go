// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/networkservice"
	"github.com/networkservicemesh/api/pkg/api/networkservice/mechanisms/cls"
	"github.com/networkservicemesh/api/pkg/api/networkservice/mechanisms/kernel"
	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/networkservice/chains/nsmgr"
	"github.com/networkservicemesh/sdk/pkg/networkservice/utils/count"
	registryclient "github.com/networkservicemesh/sdk/pkg/registry/chains/client"
	"github.com/networkservicemesh/sdk/pkg/registry/chains/memory"
	"github.com/networkservicemesh/sdk/pkg/registry/common/dnsresolve"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/networkservicemesh/sdk/pkg/tools/sandbox"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/networkservicemesh/registry-lb/internal/loopback"
)

// Lengths of the path of a connection, in segments.
const (
	localPath       = 4 // client, nsmgr, forwarder, endpoint
	remotePath      = 6 // client, nsmgr, forwarder, nsmgr, forwarder, endpoint
	interdomainPath = 8 // as remote, and the nsmgr-proxy of either domain
)

// meshOptions are what a domain is made of.
type meshOptions struct {
	// name is that of the domain; empty means that there are no others.
	name string
	// nodes is how many there are.
	nodes int
	// resolver finds other domains; nil means that there are none.
	resolver dnsresolve.Resolver
	// floating domains are found by others, and don't look for others themselves.
	floating bool
	// plain makes registry-lb pass metadata unchanged, as without TLS, and not be a hop in the NSM path.
	plain bool
	// registry makes more options for the chains of one member; nil means none.
	registry func() []memory.Option
}

// mesh is a domain of the sandbox with registries in place of the registry.
type mesh struct {
	*sandbox.Domain
	*registries
}

// newContext returns the context of a scenario; when it ends, nothing of the scenario may be left running. It has to be
// made before anything else.
func newContext(t *testing.T) context.Context {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	ctx, cancel := context.WithTimeout(log.WithLog(t.Context(), log.Empty()), lifetime)
	t.Cleanup(cancel)
	return ctx
}

// newMesh starts a domain that ends with ctx. The forwarders of its nodes are registered at the first member.
func newMesh(ctx context.Context, t *testing.T, options meshOptions) *mesh {
	t.Helper()
	r := newRegistries(t, !options.plain, options.registry)
	builder := sandbox.NewBuilder(ctx, t).
		SetNodesCount(options.nodes).
		SetRegistrySupplier(r.supply).
		SetNodeSetup(func(ctx context.Context, node *sandbox.Node, i int) {
			name := fmt.Sprintf("nsmgr%s-%d", options.name, i)
			node.NewNSMgr(ctx, name, ownURL(), tokensOf(t, name), nsmgr.NewServer)
			newForwarder(ctx, t, node, r.nameAt(registry0, fmt.Sprintf("forwarder%s-%d", options.name, i)))
		})
	if options.resolver == nil || options.floating {
		builder.SetNSMgrProxySupplier(nil).SetRegistryProxySupplier(nil)
	}
	if options.resolver != nil {
		builder.SetDNSResolver(options.resolver).SetDNSDomainName(options.name)
	}
	return &mesh{Domain: builder.Build(), registries: r}
}

func newForwarder(ctx context.Context, t *testing.T, node *sandbox.Node, name string) {
	t.Helper()
	node.NewForwarder(ctx, &registry.NetworkServiceEndpoint{
		Name:                name,
		NetworkServiceNames: []string{"forwarder"},
		Url:                 ownURL().String(),
		NetworkServiceLabels: map[string]*registry.NetworkServiceLabels{
			"forwarder": {Labels: map[string]string{"p2p": "true"}},
		},
	}, tokensOf(t, name))
}

// service registers an NS.
func (m *mesh) service(ctx context.Context, name string) {
	m.t.Helper()
	_, err := m.NewNSRegistryClient(ctx, tokensOf(m.t, "operator")).Register(ctx, &registry.NetworkService{Name: name})
	require.NoError(m.t, err)
}

// endpoint is an NSE of a scenario.
type endpoint struct {
	*sandbox.EndpointEntry
	count.Server
	nse *registry.NetworkServiceEndpoint
}

// endpoint starts an NSE on a node that serves one NS. It lives until ctx is done.
func (m *mesh) endpoint(ctx context.Context, node int, name, service string) *endpoint {
	m.t.Helper()
	e := &endpoint{nse: &registry.NetworkServiceEndpoint{
		Name: name, NetworkServiceNames: []string{service}, Url: ownURL().String(),
	}}
	e.EndpointEntry = m.Nodes[node].NewEndpoint(ctx, e.nse, tokensOf(m.t, name), &e.Server)
	return e
}

// unregister has the NSE leave the registry.
func (e *endpoint) unregister(ctx context.Context, t *testing.T) {
	t.Helper()
	_, err := e.Unregister(ctx, e.nse)
	require.NoError(t, err)
}

// nsc is a client on a node, with its connection.
type nsc struct {
	t      *testing.T
	client networkservice.NetworkServiceClient
	conn   *networkservice.Connection
}

// client starts a client on a node. It lives until ctx is done.
func (m *mesh) client(ctx context.Context, node int, name string) *nsc {
	m.t.Helper()
	return &nsc{t: m.t, client: m.Nodes[node].NewClient(ctx, tokensOf(m.t, name))}
}

// connect requests a connection to an NS.
func (c *nsc) connect(ctx context.Context, id, service string) {
	c.t.Helper()
	require.NoError(c.t, c.tryConnect(ctx, id, service))
}

func (c *nsc) tryConnect(ctx context.Context, id, service string) error {
	conn, err := c.client.Request(ctx, &networkservice.NetworkServiceRequest{
		MechanismPreferences: []*networkservice.Mechanism{{Cls: cls.LOCAL, Type: kernel.MECHANISM}},
		Connection: &networkservice.Connection{
			Id:             id,
			NetworkService: service,
			Context:        &networkservice.ConnectionContext{},
		},
	})
	if err != nil {
		return err
	}
	c.conn = conn
	return nil
}

// refresh requests the connection again, as a client does from time to time.
func (c *nsc) refresh(ctx context.Context) {
	c.t.Helper()
	require.NoError(c.t, c.tryRefresh(ctx))
}

func (c *nsc) tryRefresh(ctx context.Context) error {
	conn, err := c.client.Request(ctx, &networkservice.NetworkServiceRequest{Connection: c.conn.Clone()})
	if err != nil {
		return err
	}
	c.conn = conn
	return nil
}

// close closes the connection.
func (c *nsc) close(ctx context.Context) {
	c.t.Helper()
	_, err := c.client.Close(ctx, c.conn.Clone())
	require.NoError(c.t, err)
}

// nses returns a client for NSEs that asks registry-lb itself.
func (m *mesh) nses(ctx context.Context, name string) registry.NetworkServiceEndpointRegistryClient {
	m.t.Helper()
	return nseClient(ctx, m.t, m.Registry.URL, tokensOf(m.t, name))
}

func nseClient(ctx context.Context, t *testing.T, address *url.URL, tokens token.GeneratorFunc) registry.NetworkServiceEndpointRegistryClient {
	t.Helper()
	return registryclient.NewNetworkServiceEndpointRegistryClient(ctx,
		registryclient.WithClientURL(sandbox.CloneURL(address)),
		registryclient.WithDialOptions(sandbox.DialOptions(sandbox.WithTokenGenerator(tokens))...))
}

// found says whether registry-lb finds the NSE.
func (m *mesh) found(ctx context.Context, nse string) bool {
	m.t.Helper()
	return len(find(ctx, m.t, m.nses(ctx, "dashboard"), nse)) == 1
}

// eventually waits until check is true. It runs check where it is called, so that check may end the test.
func eventually(t *testing.T, check func() bool, what string) {
	t.Helper()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for began := time.Now(); !check(); <-ticker.C {
		require.Less(t, time.Since(began), patience, what)
	}
}

// ownURL is an address that the sandbox gives to nobody: it chooses free ports of 127.0.0.1 and takes each some time later,
// and whoever gets one of these in between makes a test fail. So all servers of a test but those whose address the sandbox
// does not let one choose are elsewhere.
func ownURL() *url.URL { return &url.URL{Scheme: "tcp", Host: loopback.Address()} }
