// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/networkservicemesh/registry-lb/internal/identity/workloadtest"
	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

// rotate gives the front another SVID, as a Workload API would, and returns it.
func (f *hopFront) rotate(tb testing.TB, world mesh, lifetime time.Duration) *x509svid.SVID {
	tb.Helper()
	svid, err := world.authority.Issue("/ns/nsm-system/pod/registry-lb", lifetime)
	require.NoError(tb, err)
	f.Workload.Renew(svid)
	f.Renew()
	return svid
}

// as is who shows and signs with svid.
func as(svid *x509svid.SVID) party { return party{Workload: workloadtest.NewWorkload(svid)} }

func signedBy(tok string, svid *x509svid.SVID) bool {
	_, err := jwt.Parse(tok, func(*jwt.Token) (any, error) { return svid.Certificates[0].PublicKey, nil })
	return err == nil
}

// signs waits until what is sent to the member is signed with svid.
func (c *hopClient) signs(tb testing.TB, cc *grpc.ClientConn, m *hopMember, f flavour, svid *x509svid.SVID) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		_, err := c.register(tb, cc, f, f.item("witness"))
		require.NoError(tb, err)
		return signedBy(m.last(tb).md[clientToken][0], svid)
	}, patience, tick, "the new SVID is not used")
}

// A member checks tokens with the certificate of the connection that they come on, so a token and the connection have to
// be of one SVID. Calls and watches go on meanwhile, the slow ones too.
func TestHopOutlivesARotation(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		s := newHopScene(t)
		world, member, front, c, cc := s.mesh, s.member, s.front, s.client, s.cc
		watcher, cut := watchHop(t, world, front, f)

		// Callers that never rest.
		stop := make(chan struct{})
		var calls atomic.Int64
		var callers sync.WaitGroup
		for _, pod := range []string{"a", "b", "c"} {
			caller := world.client(t, pod)
			conn := caller.dial(t, front.addr)
			callers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					item, err := caller.register(t, conn, f, f.item(pod))
					if err == nil {
						err = caller.unregister(t, conn, f, item)
					}
					if err != nil {
						t.Errorf("a call was dropped: %v", err)
						return
					}
					calls.Add(2)
				}
			})
		}
		var svid *x509svid.SVID
		for range 3 {
			before := calls.Load()
			// Twice in quick succession.
			front.rotate(t, world, time.Hour)
			svid = front.rotate(t, world, time.Hour)
			c.signs(t, cc, member, f, svid)
			require.Eventually(t, func() bool { return calls.Load() > before+10 }, patience, tick)
		}
		close(stop)
		callers.Wait()

		// The watch is still the first one.
		_, err := c.register(t, cc, f, f.item("late"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return slices.Contains(watcher(), "late") }, patience, tick)
		select {
		case err := <-cut:
			require.NoError(t, err, "the watch was cut")
		default:
		}
		// New ones show the new certificate.
		finds := func() int {
			member.mu.Lock()
			defer member.mu.Unlock()
			return len(member.finds)
		}
		before := finds()
		watchHop(t, world, front, f)
		require.Eventually(t, func() bool { return finds() > before }, patience, tick)
		require.True(t, signedBy(member.lastFind(t)[clientToken][0], svid), "a new watch shows an old certificate")
		// What has been replaced is closed: there are two connections for calls, up to two for new watches, up to three
		// with the first watch and those of the directory, and the one of the test itself.
		require.Eventually(t, func() bool { return member.connections() <= 8 }, patience, tick)
	})
}

// watchHop opens a watch of everything, and returns the names that it has shown and how it ended.
func watchHop(tb testing.TB, world mesh, front *hopFront, f flavour) (names func() []string, ended <-chan error) {
	tb.Helper()
	c := world.client(tb, "watcher")
	stream, err := c.dial(tb, front.addr).NewStream(within(tb), &grpc.StreamDesc{ServerStreams: true}, f.method("Find"))
	require.NoError(tb, err)
	require.NoError(tb, stream.SendMsg(f.query("", true)))
	require.NoError(tb, stream.CloseSend())
	var mu sync.Mutex
	var shown []string
	cut := make(chan error, 1)
	go func() {
		for {
			r := f.emptyResponse()
			if err := stream.RecvMsg(r); err != nil {
				cut <- err
				return
			}
			mu.Lock()
			shown = append(shown, nameOf(r))
			mu.Unlock()
		}
	}()
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(shown)
	}, cut
}

// A call that the member takes long for is neither cut nor overtaken by one about the same name.
func TestHopLetsSlowCallsEndAfterARotation(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	world := newMesh(t)
	member := world.member(t, "registry-0", serverPolicies()...)
	front := world.front(t, proxy.Options{}, serverPolicies(), member)
	front.identified(t)
	slow, next := world.client(t, "nsmgr"), world.client(t, "nsmgr")
	busy := make(chan struct{})
	member.mu.Lock()
	member.busy = busy
	member.mu.Unlock()
	results := make(chan error, 2)
	call := func(c *hopClient) {
		cc, ctx := c.dial(t, front.addr), metadata.AppendToOutgoingContext(within(t), pathKey, "{}")
		go func() { results <- cc.Invoke(ctx, f.method("Register"), f.item("slow"), f.emptyItem()) }()
	}
	call(slow)
	require.Eventually(t, func() bool { return member.count() == 1 }, patience, tick)
	member.mu.Lock()
	member.busy = nil
	member.mu.Unlock()

	svid := front.rotate(t, world, time.Hour)
	witness := world.client(t, "witness")
	witness.signs(t, witness.dial(t, front.addr), member, f, svid)
	before := member.count()
	call(next)
	witness.signs(t, witness.dial(t, front.addr), member, f, svid)
	require.Equal(t, before+1, member.count(), "the call about the same name has overtaken the slow one")
	close(busy)
	require.NoError(t, await(t, results, "the first call"))
	require.NoError(t, await(t, results, "the second call"))
}

func TestHopRotatesWhileTheMemberIsDown(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	s := newHopScene(t)
	world, member, front, c, cc := s.mesh, s.member, s.front, s.client, s.cc
	item, err := c.register(t, cc, f, f.item("item"))
	require.NoError(t, err)

	member.cut()
	require.Eventually(t, func() bool { return front.Members()[0].State == proxy.StateSuspect }, patience, tick)
	svid := front.rotate(t, world, time.Hour)
	member.mend()
	require.Eventually(t, func() bool { return front.Members()[0].State == proxy.StateLive }, patience, tick)
	_, err = c.register(t, cc, f, item)
	require.NoError(t, err)
	c.signs(t, cc, member, f, svid)
}

// The connections that a first SVID was good for end with it; those that have replaced them do not.
func TestHopOutlivesItsFirstSVID(t *testing.T) {
	t.Parallel()
	const lifetime = 8 * time.Second
	f := nseFlavour()
	s := newHopScene(t)
	world, member, front, c, cc := s.mesh, s.member, s.front, s.client, s.cc
	first := front.rotate(t, world, lifetime)
	c.signs(t, cc, member, f, first)
	second := front.rotate(t, world, time.Hour)
	c.signs(t, cc, member, f, second)
	require.Eventually(t, func() bool { return time.Now().After(first.Certificates[0].NotAfter) }, patience, tick)
	item, err := c.register(t, cc, f, f.item("item"))
	require.NoError(t, err)
	require.NoError(t, c.unregister(t, cc, f, item))
}

// Clients check that the token after their own is signed by whom they are connected to (next_token_signed.rego), and their
// connections are of before the rotation.
func TestHopAnswersByWhomTheClientWasShown(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		s := newHopScene(t)
		world, front, c, old := s.mesh, s.front, s.client, s.cc
		first := front.svid(t)
		item, err := c.register(t, old, f, f.item("item"))
		require.NoError(t, err)
		second := front.rotate(t, world, time.Hour)
		for _, row := range []struct {
			cc *grpc.ClientConn
			by *x509svid.SVID
		}{{old, first}, {c.dial(t, front.addr), second}, {old, first}} {
			item, err = c.register(t, row.cc, f, item)
			require.NoError(t, err)
			requireToken(t, c.path.PathSegments[1].Token, as(row.by), c.party)
		}
		require.NoError(t, c.unregister(t, old, f, item))
		requireToken(t, c.path.PathSegments[1].Token, as(first), c.party)
	})
}

// A client's connection must not outlive the certificate that it was shown; when it has lived long enough the client is
// asked to make a new one for its next call.
func TestHopHasClientsConnectAnew(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		world := newMesh(t)
		world.serverOptions = []grpc.ServerOption{grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 200 * time.Millisecond})}
		member := world.member(t, "registry-0", serverPolicies()...)
		front := world.front(t, proxy.Options{}, serverPolicies(), member)
		front.identified(t)
		_, cut := watchHop(t, world, front, f)
		c := world.client(t, "nsmgr")
		cc := c.dial(t, front.addr)
		svid := front.rotate(t, world, time.Hour)
		require.Eventually(t, func() bool {
			_, err := c.register(t, cc, f, f.item("item"))
			require.NoError(t, err, "a call was dropped")
			return signedBy(c.path.PathSegments[1].Token, svid)
		}, patience, tick)
		front.rotate(t, world, time.Hour)
		require.Eventually(t, func() bool {
			_, err := c.register(t, cc, f, f.item("item"))
			require.NoError(t, err, "a call was dropped")
			return !signedBy(c.path.PathSegments[1].Token, svid)
		}, patience, tick)
		select {
		case err := <-cut:
			require.NoError(t, err, "the watch was cut")
		default:
		}
	})
}

// An NSE lives no longer than the token of who registers it, and a token no longer than the certificate of whom it is
// for. So a connection must not outlive the certificate that the member has shown on it.
func TestHopConnectsAnewBeforeTheMembersCertificateEnds(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	world := newMesh(t)
	member := world.member(t, "registry-0", serverPolicies()...)
	issue := func(lifetime time.Duration) *x509svid.SVID {
		svid, err := world.authority.Issue("/ns/nsm-system/pod/registry-0", lifetime)
		require.NoError(t, err)
		return svid
	}
	first := issue(12 * time.Second)
	member.Renew(first)
	front := world.front(t, proxy.Options{ProbeInterval: 50 * time.Millisecond}, serverPolicies(), member)
	front.identified(t)
	c := world.client(t, "nsmgr")
	cc := c.dial(t, front.addr)
	expires := func() time.Time {
		_, err := c.register(t, cc, f, f.item("item"))
		require.NoError(t, err)
		at, err := time.Parse(time.RFC3339Nano, member.last(t).md[clientTokenExpires][0])
		require.NoError(t, err)
		return at
	}
	require.Equal(t, first.Certificates[0].NotAfter, expires())
	member.Renew(issue(time.Hour))
	require.Eventually(t, func() bool { return expires().After(first.Certificates[0].NotAfter) }, patience, 10*tick)
}
