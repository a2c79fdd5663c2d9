// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	serving    = grpc_health_v1.HealthCheckResponse_SERVING
	notServing = grpc_health_v1.HealthCheckResponse_NOT_SERVING
)

// says answers a probe.
func says(s grpc_health_v1.HealthCheckResponse_ServingStatus) script {
	return func(c *call) error { return c.SendMsg(&grpc_health_v1.HealthCheckResponse{Status: s}) }
}

// becomes waits until a member is in a state.
func (f *front) becomes(tb testing.TB, member string, state proxy.State) proxy.MemberStatus {
	tb.Helper()
	var found proxy.MemberStatus
	require.Eventually(tb, func() bool {
		found = f.member(member)
		return found.State == state
	}, patience, time.Millisecond, "%s %s", member, state)
	return found
}

func (f *front) member(name string) proxy.MemberStatus {
	for _, m := range f.Members() {
		if m.Name == name {
			return m
		}
	}
	return proxy.MemberStatus{}
}

// probing are options with quick probes.
func probing() proxy.Options {
	return proxy.Options{ProbeInterval: quickProbe, ProbeTimeout: patience}
}

func TestWhatAProbeSaysOfAMember(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		change func(m *scripted)
		reason string // empty: it stays live
	}{
		{"it refuses connections", (*scripted).kill, `^does not answer probes: .*(connection|EOF|transport)`},
		{"it hangs", func(m *scripted) { m.setOwn(probes, (*call).untilDone) }, "^does not answer probes: .*deadline"},
		{"it says that it is not serving", func(m *scripted) { m.setOwn(probes, says(notServing)) }, "^does not answer probes: it says that it is not serving$"},
		{"it says that it is serving", func(m *scripted) { m.setOwn(probes, says(serving)) }, ""},
		{"it does not know the question", func(m *scripted) {
			m.setOwn(probes, func(*call) error { return status.Error(codes.Unimplemented, "unknown service") })
		}, ""},
		{"it does not know its own health", func(m *scripted) { m.setOwn(probes, func(*call) error { return status.Error(codes.NotFound, "") }) }, ""},
		{"it refuses to say", func(m *scripted) { m.setOwn(probes, func(*call) error { return detailed(codes.PermissionDenied) }) }, ""},
		{"it says itself that something is unavailable", func(m *scripted) { m.setOwn(probes, func(*call) error { return detailed(codes.Unavailable) }) }, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			members := startScripteds(t, "a", "b")
			answers(members)
			var asked atomic.Int64
			answerProbes := func(s script) script {
				return func(c *call) error { asked.Add(1); return s(c) }
			}
			a := members["a"]
			a.setOwn(probes, answerProbes(says(serving)))
			options := probing()
			if row.name == "it hangs" {
				options.ProbeTimeout = hangTimeout
			}
			front := startFront(t, options, describe(members)...)
			require.Eventually(t, func() bool { return asked.Load() > 1 }, patience, tick)
			since := front.member("a").Since
			name := front.nameAt(t, nseFlavour(), "a", "name")

			changed := time.Now()
			row.change(a)
			if row.reason == "" {
				a.mu.Lock()
				changed := a.own[probes]
				a.mu.Unlock()
				asked.Store(0)
				a.setOwn(probes, answerProbes(changed))
				require.Eventually(t, func() bool { return asked.Load() > 5 }, patience, tick)
				require.Equal(t, proxy.StateLive, front.member("a").State)
				require.Equal(t, since, front.member("a").Since)
				return
			}
			m := front.becomes(t, "a", proxy.StateSuspect)
			require.Regexp(t, row.reason, m.Reason)
			require.WithinRange(t, m.Since, changed, time.Now())
			require.Zero(t, m.Share, "no share of the ring")
			require.Equal(t, proxy.StateLive, front.member("b").State)
			_, err := nseFlavour().register(within(t), front.cc, nseFlavour().item(name))
			require.Equal(t, "b", status.Convert(err).Message())
		})
	}
}

// TestCallFindsOutThatAMemberIsGone: it is not the next probe's turn for an hour.
func TestCallFindsOutThatAMemberIsGone(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	members := startScripteds(t, "a", "b")
	answers(members)
	front := startFront(t, proxy.Options{ProbeInterval: time.Hour, ProbeTimeout: time.Second}, describe(members)...)
	name := front.nameAt(t, f, "a", "name")
	members["a"].kill()
	began := time.Now()
	_, err := f.register(within(t), front.cc, f.item(name))
	require.Equal(t, "b", status.Convert(err).Message())
	t.Logf("a call for a member that refuses connections was answered elsewhere after %v", time.Since(began).Round(time.Millisecond))
	front.becomes(t, "a", proxy.StateSuspect)
	require.Equal(t, "b", front.holder(t, f.key(name)))
}

// TestRecoveredMemberJoinsAnew has a member that is well again: until the delay has passed it gets only what it holds.
func TestRecoveredMemberJoinsAnew(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	r := startReplicas(t, proxy.SharedStore, "a", "b")
	options := following(proxy.SharedStore)
	options.JoinDelay = 5 * time.Second
	front := startFront(t, options, r.describe()...)
	front.ready(t)
	require.Equal(t, proxy.StateLive, front.member("a").State)
	r.has(f, "a", "held")
	front.knows(t, f, "held", "a")

	r.byName["a"].setOwn(probes, says(notServing))
	suspect := front.becomes(t, "a", proxy.StateSuspect)
	require.Equal(t, shard.Route{Member: "b", Reason: shard.ReasonRing}, front.routeOf(t, f, "held"))
	r.byName["a"].setOwn(probes, says(serving))
	joining := front.becomes(t, "a", proxy.StateJoining)
	require.Equal(t, "ready", joining.Reason)
	require.True(t, joining.Since.After(suspect.Since))
	front.knows(t, f, "held", "a")
	for _, name := range namesOf("new", 30) {
		require.Equal(t, "b", front.holder(t, f.key(name)))
	}
	live := front.becomes(t, "a", proxy.StateLive)
	require.GreaterOrEqual(t, live.Since.Sub(joining.Since), options.JoinDelay)
	require.Positive(t, live.Share)
	front.nameAt(t, f, "a", "new")
}

// TestSuspectBeforeItJoined has a newcomer that never answers: it does not join.
func TestSuspectBeforeItJoined(t *testing.T) {
	t.Parallel()
	members := startScripteds(t, "a", "b")
	members["b"].kill()
	options := proxy.Options{ProbeInterval: quickProbe, ProbeTimeout: patience, JoinDelay: 2 * time.Second}
	front := startFront(t, options, members["a"].Member)
	front.SetMembers(describe(members))
	front.becomes(t, "b", proxy.StateSuspect)
	require.Never(t, func() bool { return front.member("b").State != proxy.StateSuspect }, 2500*time.Millisecond, tick)
	members["b"].restart(t)
	front.becomes(t, "b", proxy.StateJoining)
	front.becomes(t, "b", proxy.StateLive)
}

func TestAllMembersSuspect(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	members := startScripteds(t, "a", "b")
	answers(members)
	metrics := prometheus.NewPedanticRegistry()
	options := proxy.Options{ProbeInterval: quickProbe, ProbeTimeout: patience, Registerer: metrics, JoinDelay: time.Hour}
	front := startFront(t, options, describe(members)...)
	desperate := func() float64 { return value(t, metrics, "registry_lb_all_members_suspect", nil) }
	names := map[string]string{"a": front.nameAt(t, f, "a", "name"), "b": front.nameAt(t, f, "b", "name")}
	ask := func(name string) string {
		_, err := f.register(within(t), front.cc, f.item(name))
		return status.Convert(err).Message()
	}
	members["a"].setOwn(probes, says(notServing))
	front.becomes(t, "a", proxy.StateSuspect)
	require.Zero(t, desperate())
	require.Equal(t, "b", ask(names["a"]))

	members["b"].setOwn(probes, says(notServing))
	front.becomes(t, "b", proxy.StateSuspect)
	require.InDelta(t, 1, desperate(), 0)
	require.InDelta(t, 2, value(t, metrics, "registry_lb_members", map[string]string{"state": "suspect"}), 0)
	for member, name := range names {
		require.Equal(t, member, ask(name), "all are asked, each for its own keys")
	}
	// One that answers is enough to trust probes again.
	members["b"].setOwn(probes, says(serving))
	front.becomes(t, "b", proxy.StateLive)
	require.Zero(t, desperate())
	require.Equal(t, "b", ask(names["a"]))
	members["a"].setOwn(probes, says(serving))
	front.becomes(t, "a", proxy.StateJoining)
}

// TestFlappingMember is well and unwell in turn, and no call notices.
func TestFlappingMember(t *testing.T) {
	t.Parallel()
	f := nseFlavour()
	r := startReplicas(t, proxy.SharedStore, "a", "b")
	options := following(proxy.SharedStore)
	options.ProbeInterval = 5 * time.Millisecond
	front := startFront(t, options, r.describe()...)
	front.ready(t)
	r.leave("a") // others may take over its keys
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			name := namesOf("name", 20)[i%20]
			if _, err := f.register(t.Context(), front.cc, f.item(name)); err != nil {
				stopped <- err
				return
			}
		}
	}()
	for range 10 {
		r.byName["a"].setOwn(probes, says(notServing))
		front.becomes(t, "a", proxy.StateSuspect)
		r.byName["a"].setOwn(probes, says(serving))
		front.becomes(t, "a", proxy.StateLive)
	}
	close(stop)
	require.NoError(t, await(t, stopped, "the calls"))
	require.Empty(t, r.misplaced())
}

// TestProbesEndWithTheMember: goleak looks after the goroutines, this after the questions.
func TestProbesEndWithTheMember(t *testing.T) {
	t.Parallel()
	members := startScripteds(t, "a", "b", "c")
	asked := make(map[string]*atomic.Int64)
	for name, m := range members {
		count := new(atomic.Int64)
		asked[name] = count
		m.setOwn(probes, func(c *call) error { count.Add(1); return says(serving)(c) })
	}
	members["c"].setOwn(probes, func(c *call) error { asked["c"].Add(1); return says(notServing)(c) })
	front := startFront(t, probing(), describe(members)...)
	front.becomes(t, "c", proxy.StateSuspect)
	for name := range members {
		require.Eventually(t, func() bool { return asked[name].Load() > 2 }, patience, tick)
	}
	front.SetMembers([]shard.Member{members["a"].Member})
	leftAt := func() []int64 { return []int64{asked["b"].Load(), asked["c"].Load()} }
	var before []int64
	require.Eventually(t, func() bool { // they are asked while calls may be in flight
		now := leftAt()
		defer func() { before = now }()
		return slices.Equal(before, now)
	}, patience, 2*time.Second)
	count := asked["a"].Load()
	require.Eventually(t, func() bool { return asked["a"].Load() > count+5 }, patience, tick)
	require.Equal(t, before, leftAt())
}

// TestChangesOfMembersAreLogged has one line for each change that a person would want to know of.
func TestChangesOfMembersAreLogged(t *testing.T) {
	t.Parallel()
	members := startScripteds(t, "a", "b")
	logs, seen := observer.New(zap.InfoLevel)
	front := startFront(t, proxy.Options{ProbeInterval: quickProbe, ProbeTimeout: patience, Log: zap.New(logs)}, describe(members)...)
	members["b"].setOwn(probes, says(notServing))
	front.becomes(t, "b", proxy.StateSuspect)
	members["b"].setOwn(probes, says(serving))
	front.becomes(t, "b", proxy.StateLive)
	front.SetMembers([]shard.Member{members["a"].Member})
	front.SetMembers([]shard.Member{members["a"].Member})
	changes := make([]string, 0, 4)
	for _, entry := range seen.FilterMessage("members changed").All() {
		changes = append(changes, fmt.Sprint(entry.ContextMap()["before"], entry.ContextMap()["after"]))
	}
	const suspect = "[b (suspect: does not answer probes: it says that it is not serving)]"
	require.Equal(t, []string{"[] [a b]", "[b] " + suspect, suspect + " [b]", "[b] []"}, changes)
}

// TestTooManyMembers: who is left out gets no connection, and no line is longer for it.
func TestTooManyMembers(t *testing.T) {
	t.Parallel()
	const limit, listed = 50, 60
	logs, seen := observer.New(zap.InfoLevel)
	front := startFront(t, proxy.Options{MaxMembers: limit, Backends: "the test", Log: zap.New(logs)})
	all := make([]shard.Member, 0, listed)
	for _, name := range namesOf("registry", listed) {
		all = append(all, shard.Member{Name: name, Addrs: []string{"127.0.0.1:1"}})
	}
	want := slices.Sorted(slices.Values(namesOf("registry", listed)))[:limit]
	front.SetMembers(all)
	used := make([]string, 0, listed)
	for _, m := range front.Members() {
		if m.State == proxy.StateLive {
			used = append(used, m.Name)
		}
	}
	require.ElementsMatch(t, want, used)
	warnings := seen.FilterMessageSnippet("too many members").All()
	require.Len(t, warnings, 1)
	require.Equal(t, map[string]any{"source": "the test", "members": int64(listed), "limit": int64(limit)}, warnings[0].ContextMap())
	changes := seen.FilterMessage("members changed").All()
	require.Len(t, changes, 1)
	after, ok := changes[0].ContextMap()["after"].([]any)
	require.True(t, ok)
	require.Len(t, after, 21)
	require.Equal(t, "and 30 more", after[20])
}
