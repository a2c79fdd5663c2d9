// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// umpire sees each call from the moment in which the proxy sends it to the one in which it has come back.
type umpire struct {
	mu       sync.Mutex
	inFlight map[shard.Key]map[string]int // by key and connection's target
	most     int                          // calls about one key that were in flight at once
	fouls    []string
}

func newUmpire() *umpire { return &umpire{inFlight: make(map[shard.Key]map[string]int)} }

func (u *umpire) enter(key shard.Key, target string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := u.inFlight[key]
	if at == nil {
		at = make(map[string]int)
		u.inFlight[key] = at
	}
	at[target]++
	if len(at) > 1 {
		u.fouls = append(u.fouls, fmt.Sprintf("%v at %v", key, at))
	}
	u.most = max(u.most, at[target])
}

func (u *umpire) leave(key shard.Key, target string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := u.inFlight[key]
	if at[target]--; at[target] == 0 {
		delete(at, target)
	}
}

// watch returns the options that let the umpire see the calls.
func (u *umpire) watch() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			f, m := flavourOf(method)
			if m == "Check" || nameOf(req.(proto.Message)) == "registry-lb-introduction" {
				return invoke(ctx, method, req, reply, cc, opts...)
			}
			key := f.key(nameOf(req.(proto.Message)))
			u.enter(key, cc.Target())
			defer u.leave(key, cc.Target())
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			f, _ := flavourOf(method)
			s, err := open(ctx, desc, cc, method, opts...)
			return &umpiredStream{ClientStream: s, umpire: u, flavour: f, target: cc.Target()}, err
		}),
	}
}

// umpiredStream is a list under the umpire's eyes, from the query to the end.
type umpiredStream struct {
	grpc.ClientStream
	umpire  *umpire
	flavour flavour
	target  string
	key     shard.Key
}

func (s *umpiredStream) SendMsg(m any) error {
	s.key = s.flavour.key(nameOf(m.(proto.Message)))
	s.umpire.enter(s.key, s.target)
	return s.ClientStream.SendMsg(m)
}

func (s *umpiredStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil {
		s.umpire.leave(s.key, s.target)
	}
	return err
}

// TestNeverTwoCallsAtTwoMembers is guarantee G3, with members that join, leave, hang and recover meanwhile, and callers
// that give up.
func TestNeverTwoCallsAtTwoMembers(t *testing.T) {
	t.Parallel()
	const (
		keys    = 6
		callers = 16
		span    = 3 * time.Second
	)
	members := startScripteds(t, "a", "b", "c", "d")
	for _, m := range members {
		m.set(func(c *call) error {
			select {
			case <-time.After(rand.N(4 * time.Millisecond)):
				return obliging(c)
			case <-c.Context().Done():
				return c.untilDone()
			}
		})
	}
	u := newUmpire()
	front := startFront(t, proxy.Options{
		ProbeInterval: 20 * time.Millisecond, ProbeTimeout: patience, NoBackendWait: patience, DialOptions: u.watch(),
	}, describe(members)...)
	over := time.After(span)
	stop := make(chan struct{})
	go func() { <-over; close(stop) }()
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	var group sync.WaitGroup
	var answered, givenUp atomic.Int64
	for i := range callers {
		impatient := i%4 == 0
		group.Go(func() {
			for !stopped() {
				limit := patience
				if impatient {
					limit = rand.N(4 * time.Millisecond)
				}
				switch err := callAnything(t.Context(), front.cc, fmt.Sprint("name-", rand.IntN(keys)), limit); {
				case err == nil:
					answered.Add(1)
				case impatient:
					givenUp.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		for round := 0; !stopped(); round++ {
			described := describe(members)
			switch round % 4 {
			case 0, 2:
				rand.Shuffle(len(described), func(i, j int) { described[i], described[j] = described[j], described[i] })
				described = described[:1+rand.IntN(len(described))]
			case 1:
				described[rand.IntN(len(described))].UID = fmt.Sprint(round)
			}
			front.SetMembers(described)
			sick := members[string(rune('a'+rand.IntN(4)))]
			sick.setOwn(probes, says(notServing))
			<-time.After(50*time.Millisecond + rand.N(100*time.Millisecond))
			sick.setOwn(probes, says(serving))
		}
	})
	group.Wait()
	front.SetMembers(describe(members))
	t.Logf("%d calls were answered, %d given up, at most %d about one key in flight at once", answered.Load(), givenUp.Load(), u.most)
	require.Empty(t, u.fouls)
	require.Positive(t, givenUp.Load())
	require.Greater(t, u.most, 1, "calls to one member go side by side")
}

// callAnything makes one of the calls that have an order.
func callAnything(ctx context.Context, cc *grpc.ClientConn, name string, limit time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f := []flavour{nseFlavour(), nsFlavour()}[rand.IntN(2)]
	switch rand.IntN(3) {
	case 0:
		_, err = f.register(ctx, cc, f.item(name))
	case 1:
		_, err = f.unregister(ctx, cc, f.item(name))
	default:
		_, err = f.list(ctx, cc, f.query(name, false))
	}
	return err
}

// occupied has a call about a name in flight at a member that has left meanwhile.
type occupied struct {
	front *front
	name  string
	other map[string]*scripted
	// cancel ends the call, release lets it be answered; result is how it ended.
	cancel  context.CancelFunc
	release chan struct{}
	result  chan error
}

func occupy(t *testing.T) *occupied {
	t.Helper()
	f := nseFlavour()
	members := startScripteds(t, "a", "b")
	o := &occupied{other: members, release: make(chan struct{}), result: make(chan error, 1)}
	began := make(chan struct{})
	members["a"].set(func(c *call) error {
		began <- struct{}{}
		select {
		case <-o.release:
			return obliging(c)
		case <-c.Context().Done():
			return c.untilDone()
		}
	})
	// The clock stands still, so a member that leaves can take all the time in the world for its calls.
	o.front = startFront(t, proxy.Options{Clock: testingclock.NewFakeClock(time.Now())}, describe(members)...)
	o.name = o.front.nameAt(t, f, "a", "name")
	ctx, cancel := context.WithCancel(within(t))
	o.cancel = cancel
	go func() { _, err := f.register(ctx, o.front.cc, f.item(o.name)); o.result <- err }()
	await(t, began, "the call")
	o.front.SetMembers([]shard.Member{members["b"].Member})
	return o
}

func TestCallWaitsForTheOneInFlightElsewhere(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		end  func(o *occupied)
		code codes.Code
	}{
		{"until it is answered", func(o *occupied) { close(o.release) }, codes.OK},
		{"until it is cancelled", func(o *occupied) { o.cancel() }, codes.Canceled},
		{"until its connection breaks", func(o *occupied) { o.other["a"].kill() }, codes.OK},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f, o := nseFlavour(), occupy(t)
			waiting := make(chan error, 3)
			go func() { _, err := f.register(t.Context(), o.front.cc, f.item(o.name)); waiting <- err }()
			go func() { _, err := f.unregister(t.Context(), o.front.cc, f.item(o.name)); waiting <- err }()
			go func() { _, err := f.list(t.Context(), o.front.cc, f.query(o.name, false)); waiting <- err }()
			require.Never(t, func() bool { return o.other["b"].calls() > 0 }, 200*time.Millisecond, tick)

			// Others are not held up: another name, and the same one of the other service.
			_, err := f.register(within(t), o.front.cc, f.item("other"))
			require.NoError(t, err)
			_, err = nsFlavour().register(within(t), o.front.cc, nsFlavour().item(o.name))
			require.NoError(t, err)
			require.Empty(t, waiting)

			row.end(o)
			requireCode(t, row.code, await(t, o.result, "the call in flight"))
			for range 3 {
				require.NoError(t, await(t, waiting, "the calls that waited"))
			}
		})
	}
}

func TestWaitingCallIsGivenUp(t *testing.T) {
	t.Parallel()
	f, o := nseFlavour(), occupy(t)
	ctx, cancel := context.WithCancel(within(t))
	waiting := make(chan error, 1)
	go func() { _, err := f.register(ctx, o.front.cc, f.item(o.name)); waiting <- err }()
	require.Never(t, func() bool { return len(waiting) > 0 }, 100*time.Millisecond, tick)
	cancel()
	requireCode(t, codes.Canceled, await(t, waiting, "the call that waited"))

	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := f.register(ctx, o.front.cc, f.item(o.name))
	requireCode(t, codes.DeadlineExceeded, err)
	require.Empty(t, o.result, "the call in flight goes on")
	require.Zero(t, o.other["b"].calls())

	go func() {
		_, err := f.register(context.WithoutCancel(t.Context()), o.front.cc, f.item(o.name))
		waiting <- err
	}()
	require.Never(t, func() bool { return len(waiting) > 0 }, 100*time.Millisecond, tick)
	o.front.stop()
	requireCode(t, codes.Unavailable, await(t, waiting, "the call that waited when the proxy stopped"))
}

// TestWaitingCallFindsWhatTheOneBeforeTold: the first call says where the key is held, and the second one, which the
// ring would have sent elsewhere, goes there.
func TestWaitingCallFindsWhatTheOneBeforeTold(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	r := startReplicas(t, proxy.SharedStore, "a", "b")
	for _, m := range r.byName {
		m.setOwn(directory, obliging)
	}
	front := startFront(t, following(proxy.SharedStore), r.describe()...)
	front.ready(t)
	b := r.byName["b"]
	path := pathOf(t, b.id)
	began, release := make(chan struct{}), make(chan struct{})
	b.set(func(c *call) error {
		if c.method == "Register" {
			began <- struct{}{}
			<-release
		}
		return r.serve(b, path, c)
	})
	for i := range 20 {
		name := front.nameAt(t, f, "a", fmt.Sprint("name-", i))
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := f.register(t.Context(), front.cc, signed(f.item(name), idOf("b"))); first <- err }()
		await(t, began, "the first call")
		go func() { _, err := f.list(t.Context(), front.cc, f.query(name, false)); second <- err }()
		require.Never(t, func() bool { return len(second) > 0 }, 20*time.Millisecond, 5*time.Millisecond)
		release <- struct{}{}
		require.NoError(t, errors.Join(await(t, first, "the first call"), await(t, second, "the second call")))
	}
	require.Empty(t, r.misplaced())
}
