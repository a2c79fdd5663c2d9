// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/networkservicemesh/sdk/pkg/registry/chains/memory"
	sdkauthorize "github.com/networkservicemesh/sdk/pkg/registry/common/authorize"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/networkservicemesh/sdk/pkg/tools/spiffejwt"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"k8s.io/utils/clock"

	"github.com/networkservicemesh/registry-lb/internal/identity"
	"github.com/networkservicemesh/registry-lb/internal/identity/workloadtest"
	"github.com/networkservicemesh/registry-lb/internal/logging"
	"github.com/networkservicemesh/registry-lb/internal/policy"
	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// The metadata of NSM's hops.
const (
	clientToken        = "nsm-client-token"
	clientTokenExpires = "nsm-client-token-expires"
	pathKey            = "path"
)

// serverPolicies are the default of registry-k8s.
func serverPolicies() []string {
	return []string{"etc/nsm/opa/common/.*.rego", "etc/nsm/opa/registry/.*.rego", "etc/nsm/opa/server/.*.rego"}
}

// clientPolicies are the default of registry-k8s for what it is a client of.
func clientPolicies() []string {
	return []string{"etc/nsm/opa/common/.*.rego", "etc/nsm/opa/registry/.*.rego", "etc/nsm/opa/client/.*.rego"}
}

// mesh is a trust domain.
type mesh struct {
	authority *workloadtest.Authority
	// clientPolicies check what members answer.
	clientPolicies []string
	// serverOptions are those of its fronts, on top of what they need.
	serverOptions []grpc.ServerOption
}

func newMesh(tb testing.TB) mesh {
	tb.Helper()
	a, err := workloadtest.NewAuthority("k8s.nsm")
	require.NoError(tb, err)
	return mesh{authority: a, clientPolicies: clientPolicies()}
}

// hopScene is the usual cast: an nsmgr, registry-lb, and one member, which check their callers as registry-k8s does.
type hopScene struct {
	mesh   mesh
	member *hopMember
	front  *hopFront
	client *hopClient
	// cc is the client's connection to the front.
	cc *grpc.ClientConn
}

func newHopScene(tb testing.TB) hopScene {
	tb.Helper()
	s := hopScene{mesh: newMesh(tb)}
	s.member = s.mesh.member(tb, "registry-0", serverPolicies()...)
	s.front = s.mesh.front(tb, proxy.Options{}, serverPolicies(), s.member)
	s.front.identified(tb)
	s.client = s.mesh.client(tb, "nsmgr")
	s.cc = s.client.dial(tb, s.front.addr)
	return s
}

// party is a workload of the mesh.
type party struct {
	*workloadtest.Workload
	// sign makes its tokens.
	sign token.GeneratorFunc
}

func (m mesh) party(tb testing.TB, pod string) party {
	tb.Helper()
	svid, err := m.authority.Issue("/ns/nsm-system/pod/"+pod, time.Hour)
	require.NoError(tb, err)
	w := workloadtest.NewWorkload(svid, m.authority)
	return party{Workload: w, sign: spiffejwt.TokenGeneratorFunc(w, 10*time.Minute)}
}

func (p party) svid(tb testing.TB) *x509svid.SVID {
	tb.Helper()
	svid, err := p.GetX509SVID()
	require.NoError(tb, err)
	return svid
}

// tokenFor is a token of p for the audience of another party.
func (p party) tokenFor(tb testing.TB, audience party) (tok string, expires time.Time) {
	tb.Helper()
	info := credentials.TLSInfo{}
	info.State.PeerCertificates = audience.svid(tb).Certificates
	tok, expires, err := p.sign(info)
	require.NoError(tb, err)
	return tok, expires
}

// received is a unary call as it reached a member.
type received struct {
	method  string
	md      metadata.MD
	request proto.Message
}

// hopMember is the SDK's memory registry behind mutual TLS.
type hopMember struct {
	shard.Member
	party
	*wire
	// reader is a connection of somebody who reads what the member has.
	reader *grpc.ClientConn

	mu    sync.Mutex
	calls []received
	// finds is the metadata of the Finds.
	finds []metadata.MD
	// busy lets no call end until it is closed; nil does not.
	busy chan struct{}
}

// last is the call that came last.
func (m *hopMember) last(tb testing.TB) received {
	tb.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	require.NotEmpty(tb, m.calls)
	return m.calls[len(m.calls)-1]
}

func (m *hopMember) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.calls)
}

func (m *hopMember) note(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if message, ok := req.(proto.Message); ok && info.FullMethod != "/grpc.health.v1.Health/Check" {
		m.mu.Lock()
		m.calls = append(m.calls, received{method: info.FullMethod, md: md.Copy(), request: proto.CloneOf(message)})
		busy := m.busy
		m.mu.Unlock()
		if busy != nil {
			<-busy
		}
	}
	return handler(log.WithLog(ctx, log.Empty()), req)
}

func (m *hopMember) noteFind(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	m.mu.Lock()
	m.finds = append(m.finds, md.Copy())
	m.mu.Unlock()
	return handler(srv, stream)
}

// lastFind is the metadata of the Find that came last.
func (m *hopMember) lastFind(tb testing.TB) metadata.MD {
	tb.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	require.NotEmpty(tb, m.finds)
	return m.finds[len(m.finds)-1]
}

// member starts a member with these policies.
func (m mesh) member(tb testing.TB, name string, policies ...string) *hopMember {
	tb.Helper()
	ctx, cancel := context.WithCancel(log.WithLog(context.Background(), log.Empty()))
	result := &hopMember{party: m.party(tb, name), wire: newWire(tb)}
	registry := memory.NewServer(ctx, result.sign,
		memory.WithAuthorizeNSERegistryServer(sdkauthorize.NewNetworkServiceEndpointRegistryServer(sdkauthorize.WithPolicies(policies...))),
		memory.WithAuthorizeNSRegistryServer(sdkauthorize.NewNetworkServiceRegistryServer(sdkauthorize.WithPolicies(policies...))),
	)
	serveHop(tb, result.wire, identity.ServerCredentials(result.party), registry.Register,
		grpc.UnaryInterceptor(result.note), grpc.StreamInterceptor(result.noteFind))
	result.Member = shard.Member{Name: name, UID: name, Addrs: []string{result.wire.Addr().String()}}
	result.reader = m.client(tb, "reader").dial(tb, result.Addrs[0])
	tb.Cleanup(cancel)
	return result
}

// serveHop serves on w with these credentials.
func serveHop(tb testing.TB, w *wire, creds credentials.TransportCredentials, register func(*grpc.Server), options ...grpc.ServerOption) {
	tb.Helper()
	s := grpc.NewServer(append(options, grpc.Creds(creds))...)
	register(s)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(w) }()
	tb.Cleanup(func() { s.Stop(); <-served })
}

// wire is a listener that can be cut, and that knows its connections.
type wire struct {
	net.Listener

	mu   sync.Mutex
	open map[net.Conn]struct{}
	down bool
}

func newWire(tb testing.TB) *wire {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = l.Close() })
	return &wire{Listener: l, open: make(map[net.Conn]struct{})}
}

// wired is a connection of a wire.
type wired struct {
	net.Conn
	of *wire
}

func (c *wired) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.open, c)
	return c.Conn.Close()
}

func (w *wire) Accept() (net.Conn, error) {
	for {
		raw, err := w.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &wired{raw, w}
		w.mu.Lock()
		down := w.down
		if !down {
			w.open[c] = struct{}{}
		}
		w.mu.Unlock()
		if !down {
			return c, nil
		}
		_ = raw.Close()
	}
}

// cut ends all connections and takes no new ones until it is mended.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	for c := range w.open {
		_ = c.(*wired).Conn.Close()
	}
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = false
}

// connections is how many there are.
func (w *wire) connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.open)
}

// hopFront is a proxy that is a hop of a mesh.
type hopFront struct {
	*proxy.Proxy
	party
	addr string
	// logs are all lines, those of the SDK's elements too.
	logs *observer.ObservedLogs
}

// front starts a proxy that is a hop in front of the members, and checks with these policies.
func (m mesh) front(tb testing.TB, o proxy.Options, policies []string, members ...*hopMember) *hopFront {
	tb.Helper()
	f := &hopFront{party: m.party(tb, "registry-lb")}
	f.sign = identity.Reuse(identity.Tokens(f, 10*time.Minute, clock.RealClock{}), clock.RealClock{})
	core, logs := observer.New(zapcore.DebugLevel)
	f.logs = logs
	o.Log = zap.New(core)
	if o.ProbeTimeout == 0 {
		o.ProbeTimeout = patience // a member on a busy machine is not to be taken for one that hangs
	}
	o.DialOptions = []grpc.DialOption{
		grpc.WithTransportCredentials(identity.Bind(f, func(s identity.SVIDs) credentials.TransportCredentials {
			return identity.ClientCredentials(s, nil)
		})),
		grpc.WithPerRPCCredentials(token.NewPerRPCCredentials(f.sign)),
	}
	callers, err := policy.New(policies, clock.RealClock{})
	require.NoError(tb, err)
	answers, err := policy.New(m.clientPolicies, clock.RealClock{})
	require.NoError(tb, err)
	o.Hop = &proxy.Hop{Tokens: f.sign, Authorize: checkBy(callers, policy.Server), Accept: checkBy(answers, policy.Client)}
	p, err := proxy.New(o)
	require.NoError(tb, err)
	f.Proxy = p
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(ctx) }()
	tb.Cleanup(func() { cancel(); <-done })
	w := newWire(tb)
	f.addr = w.Addr().String()
	serveHop(tb, w, identity.Bind(f, identity.ServerCredentials), func(s *grpc.Server) { p.Register(s, health.NewServer()) }, slices.Concat(proxy.ServerOptions(), []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			return handler(log.WithLog(ctx, logging.SDK(o.Log)), req)
		}),
	}, m.serverOptions)...)
	described := make([]shard.Member, 0, len(members))
	for _, m := range members {
		described = append(described, m.Member)
	}
	p.SetMembers(described)
	return f
}

// identified waits until the front knows who its members are.
func (f *hopFront) identified(tb testing.TB) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		for _, m := range f.Members() {
			if m.SpiffeID == "" {
				return false
			}
		}
		return true
	}, patience, tick)
}

// checkBy checks calls or answers as the policies say.
func checkBy(checker *policy.Checker, side policy.Side) func(context.Context, proxy.Authorization) error {
	return func(ctx context.Context, call proxy.Authorization) error {
		in := policy.Input{Side: side, Name: call.Key.Name, Path: call.Path}
		if p, ok := peer.FromContext(ctx); ok {
			in.Certificate = identity.Certificate(p.AuthInfo)
		}
		id := policy.Subject(call.Path)
		switch call.OwnedBy(id) {
		case shard.Owner:
			in.PathIDs = []string{id}
		case shard.NotOwner:
			in.PathIDs = []string{"another"}
		case shard.OwnerUnknown:
		}
		return checker.Check(ctx, in)
	}
}

func subjectOf(tok string) string {
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(tok, &claims); err != nil {
		return ""
	}
	return claims.Subject
}

// requireToken checks that tok is one of signer for audience.
func requireToken(tb testing.TB, tok string, signer, audience party) {
	tb.Helper()
	var claims jwt.RegisteredClaims
	_, err := jwt.ParseWithClaims(tok, &claims, func(*jwt.Token) (any, error) {
		return signer.svid(tb).Certificates[0].PublicKey.(*ecdsa.PublicKey), nil
	}, jwt.WithValidMethods([]string{"ES256"}))
	require.NoError(tb, err)
	require.Equal(tb, signer.ID(), claims.Subject)
	require.Equal(tb, jwt.ClaimStrings{audience.ID()}, claims.Audience)
}

func pathFrom(tb testing.TB, md metadata.MD) *grpcmetadata.Path {
	tb.Helper()
	require.Len(tb, md[pathKey], 1)
	path := new(grpcmetadata.Path)
	require.NoError(tb, json.Unmarshal([]byte(md[pathKey][0]), path))
	return path
}

// hopClient calls as a client of NSM does: it brings along the path that came back.
type hopClient struct {
	party
	path *grpcmetadata.Path
	// header is what came with the last answer.
	header metadata.MD
}

func (m mesh) client(tb testing.TB, pod string) *hopClient {
	tb.Helper()
	return &hopClient{party: m.party(tb, pod), path: new(grpcmetadata.Path)}
}

// dial connects to addr, with a token for each call.
func (c *hopClient) dial(tb testing.TB, addr string) *grpc.ClientConn {
	tb.Helper()
	return c.connect(tb, addr, grpc.WithPerRPCCredentials(token.NewPerRPCCredentials(c.sign)))
}

// connect connects to addr without tokens: what metadata there is the caller adds.
func (c *hopClient) connect(tb testing.TB, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	cc, err := grpc.NewClient(addr, append(options, grpc.WithTransportCredentials(identity.ClientCredentials(c, nil)))...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = cc.Close() })
	return cc
}

// call makes a unary call, as the SDK's element grpcmetadata does.
func (c *hopClient) call(tb testing.TB, cc *grpc.ClientConn, method string, req, resp proto.Message) error {
	tb.Helper()
	text, err := json.Marshal(c.path)
	require.NoError(tb, err)
	c.header = nil
	if err := cc.Invoke(metadata.AppendToOutgoingContext(within(tb), pathKey, string(text)), method, req, resp, grpc.Header(&c.header)); err != nil {
		return err
	}
	c.path = pathFrom(tb, c.header)
	return nil
}

func (c *hopClient) register(tb testing.TB, cc *grpc.ClientConn, f flavour, item proto.Message) (proto.Message, error) {
	tb.Helper()
	resp := f.emptyItem()
	return resp, c.call(tb, cc, f.method("Register"), item, resp)
}

func (c *hopClient) unregister(tb testing.TB, cc *grpc.ClientConn, f flavour, item proto.Message) error {
	tb.Helper()
	return c.call(tb, cc, f.method("Unregister"), item, new(emptypb.Empty))
}
