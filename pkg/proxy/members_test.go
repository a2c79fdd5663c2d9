// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// peerOf is where a call comes from.
func peerOf(c *call) string {
	p, _ := peer.FromContext(c.Context())
	return p.Addr.String()
}

func TestNewLifeOfAMemberGetsNewConnections(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	members := startScripteds(t, "a", "b")
	answers(members)
	front := startFront(t, proxy.Options{}, describe(members)...)
	name := front.nameAt(t, f, "a", "name")
	ask := func() string {
		_, err := f.register(within(t), front.cc, f.item(name))
		return status.Convert(err).Message()
	}
	require.Equal(t, "a", ask())
	stays := front.nameAt(t, f, "b", "name")
	_, err := f.register(within(t), front.cc, f.item(stays))
	require.Equal(t, "b", status.Convert(err).Message())
	dials := members["b"].dials()

	reborn := startScripted(t, "a")
	reborn.set(func(*call) error { return status.Error(codes.NotFound, "a reborn") })
	reborn.UID = "another"
	front.SetMembers([]shard.Member{reborn.Member, members["b"].Member})
	require.Equal(t, "a reborn", ask())

	// The same life with another address is another place as well.
	moved := startScripted(t, "a")
	moved.set(func(*call) error { return status.Error(codes.NotFound, "a moved") })
	moved.UID = reborn.UID
	front.SetMembers([]shard.Member{moved.Member, members["b"].Member})
	require.Equal(t, "a moved", ask())

	for range 3 {
		front.SetMembers([]shard.Member{moved.Member, members["b"].Member})
		_, err = f.register(within(t), front.cc, f.item(stays))
		require.Equal(t, "b", status.Convert(err).Message())
	}
	require.Equal(t, dials, members["b"].dials(), "a member that stays keeps its connections")
}

func TestLeavingMembersFinishTheirCalls(t *testing.T) {
	t.Parallel()
	for _, phase := range []shard.Phase{shard.NotReady, shard.Terminating} {
		t.Run(phase.String(), func(t *testing.T) {
			t.Parallel()
			f := nseFlavour()
			members := startScripteds(t, "a", "b")
			answers(members)
			clock := testingclock.NewFakeClock(time.Now())
			front := startFront(t, proxy.Options{Clock: clock}, describe(members)...)
			name, another := front.nameAt(t, f, "a", "name"), front.nameAt(t, f, "a", "another")
			began, finish := make(chan struct{}, 2), make(chan struct{})
			members["a"].set(func(c *call) error {
				began <- struct{}{}
				select {
				case <-finish:
					return status.Error(codes.NotFound, "a to the end")
				case <-c.Context().Done():
					return c.untilDone()
				}
			})
			type result struct{ unary, list string }
			done := make(chan result, 1)
			go func() {
				var r result
				var group sync.WaitGroup
				group.Go(func() {
					_, err := f.register(t.Context(), front.cc, f.item(name))
					r.unary = status.Convert(err).Message()
				})
				group.Go(func() {
					_, err := f.list(t.Context(), front.cc, f.query(name, false))
					r.list = status.Convert(err).Message()
				})
				group.Wait()
				done <- r
			}()
			await(t, began, "the first call")
			await(t, began, "the second call")

			leaving := members["a"].Member
			leaving.Phase = phase
			front.SetMembers([]shard.Member{leaving, members["b"].Member})
			_, err := f.register(within(t), front.cc, f.item(another))
			require.Equal(t, "b", status.Convert(err).Message(), "new calls go elsewhere")
			clock.Step(4 * time.Second) // of the five that calls get
			close(finish)
			require.Equal(t, result{"a to the end", "a to the end"}, await(t, done, "the calls in flight"))
			clock.Step(time.Minute)
		})
	}
}

func TestCallsThatOutlastTheGraceAreSentElsewhere(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	members := startScripteds(t, "a", "b")
	answers(members)
	clock := testingclock.NewFakeClock(time.Now())
	front := startFront(t, proxy.Options{Clock: clock}, describe(members)...)
	name := front.nameAt(t, f, "a", "name")
	began := make(chan struct{}, 1)
	members["a"].set(func(c *call) error {
		began <- struct{}{}
		return c.untilDone()
	})
	done := make(chan error, 1)
	go func() {
		_, err := f.register(t.Context(), front.cc, f.item(name))
		done <- err
	}()
	await(t, began, "the call")
	front.SetMembers([]shard.Member{members["b"].Member})
	require.Eventually(t, func() bool {
		clock.Step(time.Second)
		return len(done) > 0
	}, patience, tick)
	require.Equal(t, "b", status.Convert(<-done).Message())
}

// summary is the state of the members in short.
func summary(front *front) map[string]string {
	states := make(map[string]string)
	for _, m := range front.Members() {
		states[m.Name] = fmt.Sprintf("%s, %s", m.State, m.Reason)
	}
	return states
}

func TestMembersAreDescribed(t *testing.T) {
	t.Parallel()
	began := time.Now()
	clock := testingclock.NewFakeClock(began)
	members := func(phases ...shard.Phase) []shard.Member {
		described := make([]shard.Member, 0, len(phases))
		for i, phase := range phases {
			name := string(rune('a' + i))
			described = append(described, shard.Member{Name: name, UID: name, Addrs: []string{"127.0.0.1:1"}, Phase: phase, Node: "node-" + name})
		}
		return described
	}
	front := startFront(t, proxy.Options{Clock: clock}, members(shard.Ready, shard.NotReady, shard.Terminating)...)
	require.Equal(t, map[string]string{"a": "live, ready", "b": "left, not ready", "c": "left, terminating"}, summary(front))
	require.InDelta(t, 1, front.Members()[0].Share, 1e-9)
	require.Equal(t, "node-a", front.Members()[0].Node)

	clock.Step(time.Minute)
	front.SetMembers(members(shard.Ready, shard.Ready, shard.Terminating))
	require.Equal(t, map[string]string{"a": "live, ready", "b": "live, ready", "c": "left, terminating"}, summary(front))
	list := front.Members()
	require.True(t, slices.IsSortedFunc(list, func(x, y proxy.MemberStatus) int { return int(x.Name[0]) - int(y.Name[0]) }))
	require.Equal(t, began, list[0].Since, "nothing happened to a")
	require.Equal(t, began.Add(time.Minute), list[1].Since)
	require.Equal(t, began, list[2].Since)
	require.InDelta(t, 1, list[0].Share+list[1].Share, 1e-9)

	front.SetMembers(members(shard.Ready))
	require.Equal(t, map[string]string{"a": "live, ready", "b": "left, gone", "c": "left, gone"}, summary(front))
	clock.Step(9 * time.Minute)
	require.Len(t, front.Members(), 3)
	clock.Step(time.Minute)
	require.Equal(t, map[string]string{"a": "live, ready"}, summary(front), "gone for ten minutes")

	lost := members(shard.Ready)
	lost[0].Addrs, lost[0].UID = nil, "another"
	front.SetMembers(lost)
	require.Equal(t, map[string]string{"a": "left, has no usable address"}, summary(front))
	_, ok := front.Locate(shard.NSEKey("name"))
	require.False(t, ok)
}

func TestGoneMembersAreForgottenHoweverFastTheyCome(t *testing.T) {
	t.Parallel()
	front := startFront(t, proxy.Options{Clock: testingclock.NewFakeClock(time.Now())})
	for batch := range 20 {
		described := make([]shard.Member, 0, 10)
		for i := range cap(described) {
			name := fmt.Sprint("pod-", batch, "-", i)
			described = append(described, shard.Member{Name: name, UID: name, Phase: shard.NotReady})
		}
		front.SetMembers(described)
	}
	require.LessOrEqual(t, len(front.Members()), 74)
}

func TestNewcomersJoinAfterADelay(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	members := startScripteds(t, "a", "b", "c")
	clock := testingclock.NewFakeClock(time.Now())
	front := startFront(t, proxy.Options{Clock: clock, JoinDelay: 2 * time.Second}, members["a"].Member)
	require.Equal(t, map[string]string{"a": "live, ready"}, summary(front), "the first need not wait")
	front.SetMembers(describe(members)[:0:0])
	front.SetMembers([]shard.Member{members["a"].Member})
	waiters := clock.Waiters()
	front.SetMembers(describe(members))
	require.Equal(t, map[string]string{"a": "live, ready", "b": "joining, ready", "c": "joining, ready"}, summary(front))
	for i := range 50 {
		require.Equal(t, "a", front.holder(t, f.key(fmt.Sprint(i))))
	}
	require.Eventually(t, func() bool { return clock.Waiters() == waiters+2 }, patience, tick)
	clock.Step(2 * time.Second)
	require.Eventually(t, func() bool {
		s := summary(front)
		return s["b"] == "live, ready" && s["c"] == "live, ready"
	}, patience, tick)
	ring := ringOf(members)
	for i := range 50 {
		want, _ := ring.Locate(f.key(fmt.Sprint(i)))
		require.Equal(t, want, front.holder(t, f.key(fmt.Sprint(i))))
	}
}

// TestNewcomersAloneJoinAtOnce: were they to join one after the other, keys would move.
func TestNewcomersAloneJoinAtOnce(t *testing.T) {
	t.Parallel()
	members := startScripteds(t, "a", "b", "c")
	clock := testingclock.NewFakeClock(time.Now())
	front := startFront(t, proxy.Options{Clock: clock, JoinDelay: 2 * time.Second}, members["a"].Member)
	front.SetMembers([]shard.Member{members["b"].Member, members["c"].Member})
	require.Equal(t, map[string]string{"a": "left, gone", "b": "live, ready", "c": "live, ready"}, summary(front))
	require.Equal(t, "live, ready", summary(front)["b"])
}

func TestMembersChangeUnderCalls(t *testing.T) {
	t.Parallel()
	members := startScripteds(t, "a", "b", "c")
	front := startFront(t, proxy.Options{NoBackendWait: patience}, describe(members)...)
	changed := make(chan struct{})
	var group sync.WaitGroup
	for i := range 2 {
		group.Go(func() {
			for round := range 6 {
				described := describe(members)
				switch (round + i) % 4 {
				case 0:
					described = described[:1]
				case 1:
					described[0].UID = fmt.Sprint(i, round)
				case 2:
					described[0].Phase = shard.NotReady
				}
				front.SetMembers(described)
				front.Members()
				front.Locate(shard.NSEKey("name"))
			}
		})
	}
	go func() { group.Wait(); close(changed) }()
	for i := 0; ; i++ {
		select {
		case <-changed:
			return
		default:
		}
		for _, f := range []flavour{nseFlavour(), nsFlavour()} {
			name := fmt.Sprint("name-", i)
			_, err := f.register(within(t), front.cc, f.item(name))
			require.NoError(t, err)
			_, err = f.list(within(t), front.cc, f.query(name, false))
			require.NoError(t, err)
			_, err = f.unregister(within(t), front.cc, f.item(name))
			require.NoError(t, err)
		}
	}
}

func TestStopEndsCallsAndConnections(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		for _, store := range op.stores() {
			m := startScripted(t, "a")
			began := make(chan struct{}, 10)
			m.set(func(c *call) error {
				began <- struct{}{}
				return c.untilDone()
			})
			front := startFront(t, proxy.Options{Store: store}, m.Member)
			done := make(chan error, 1)
			go func() { done <- op.do(t.Context(), f, front.cc).err }()
			await(t, began, "the call")
			front.stop()
			requireCode(t, codes.Unavailable, await(t, done, "the end of the call"))

			o := op.do(within(t), f, front.cc)
			requireCode(t, codes.Unavailable, o.err)
			require.Contains(t, o.err.Error(), "stopping")
			front.SetMembers([]shard.Member{m.Member}) // says nothing any more
			require.Empty(t, began)
		}
	})
}

func TestStopWhileThereIsNoMember(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		waiting := make(chan struct{}, 1)
		front := startFront(t, proxy.Options{NoBackendWait: time.Hour, Clock: newSignallingClock(waiting)})
		done := make(chan error, 1)
		go func() { done <- op.do(t.Context(), f, front.cc).err }()
		await(t, waiting, "a call that waits")
		front.stop()
		requireCode(t, codes.Unavailable, await(t, done, "the end of the call"))
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	_, err := proxy.New(proxy.Options{Store: "none"})
	require.ErrorContains(t, err, `unknown store "none"`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := proxy.New(proxy.Options{})
	require.NoError(t, err)
	require.NoError(t, p.Run(ctx))
}
