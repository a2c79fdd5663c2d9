// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/core/streamchannel"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// TestTwoMissedAnswers: a member that is slow once is not given up, and one that hangs is after the second question.
func TestTwoMissedAnswers(t *testing.T) {
	t.Parallel()
	inBubble(t, proxy.Options{}, []string{"a", "b"}, func(t *testing.T, b *bubble) {
		t.Helper()
		probesOfA := make(chan bool, 10) // whether the next ones are answered
		b.members["a"].setOwn(probes, func(c *call) error {
			if answered := <-probesOfA; answered {
				return says(serving)(c)
			}
			return c.untilDone()
		})
		// The first question comes at once, and then one in each second.
		for range 3 {
			probesOfA <- false
			time.Sleep(1100 * time.Millisecond) //nolint:forbidigo // takes no time in a bubble
			require.Equal(t, proxy.StateLive, b.state("a"), "one was missed")
			probesOfA <- true
			time.Sleep(900 * time.Millisecond) //nolint:forbidigo // takes no time in a bubble
			require.Equal(t, proxy.StateLive, b.state("a"))
		}
		probesOfA <- false
		probesOfA <- false
		time.Sleep(1900 * time.Millisecond) //nolint:forbidigo // takes no time in a bubble
		require.Equal(t, proxy.StateLive, b.state("a"))
		time.Sleep(200 * time.Millisecond) //nolint:forbidigo // takes no time in a bubble
		require.Equal(t, proxy.StateSuspect, b.state("a"), "two were missed")
		close(probesOfA)
	})
}

// TestCallsInFlightLeaveAMemberThatHangs has the settings that are the default, and logs what they mean for a client:
// at most an interval until the question, and two questions without an answer.
func TestCallsInFlightLeaveAMemberThatHangs(t *testing.T) {
	t.Parallel()
	inBubble(t, proxy.Options{}, []string{"a", "b"}, func(t *testing.T, b *bubble) {
		t.Helper()
		name := b.settled(t, "a")
		hang := func(c *call) error { return c.untilDone() }
		b.members["a"].set(hang)
		b.members["a"].setOwn(probes, hang)
		began := time.Now()
		err := b.register(context.Background(), name)
		took := time.Since(began)
		require.Equal(t, "b", status.Convert(err).Message())
		t.Logf("a call in flight at a member that hangs was answered elsewhere after %v", took)
		require.LessOrEqual(t, took, 3500*time.Millisecond)
		require.GreaterOrEqual(t, took, 2*time.Second)

		began = time.Now()
		require.Equal(t, "b", status.Convert(b.register(context.Background(), name)).Message())
		require.Zero(t, time.Since(began), "the next one does not notice")
	})
}

// TestCallsInFlightLeaveALeaverThatHangs has a member that hangs and is not ready any more before the second probe was
// missed: what is in flight there must not wait for as long as at one that ends in good order.
func TestCallsInFlightLeaveALeaverThatHangs(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name       string
		answers    bool // probes
		soonest    time.Duration
		latest     time.Duration
		answeredBy string
	}{
		{"it hangs", false, 2 * time.Second, 3500 * time.Millisecond, "b"},
		{"it answers probes, and takes long for the call", true, 4 * time.Second, 4 * time.Second, "a"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, proxy.Options{}, []string{"a", "b"}, func(t *testing.T, b *bubble) {
				t.Helper()
				name := b.settled(t, "a")
				b.members["a"].set(func(c *call) error {
					if !row.answers {
						return c.untilDone()
					}
					time.Sleep(4 * time.Second) //nolint:forbidigo // takes no time in a bubble
					return status.Error(codes.Aborted, "a")
				})
				if !row.answers {
					b.members["a"].setOwn(probes, (*call).untilDone)
				}
				began := time.Now()
				ended := make(chan error, 1)
				go func() { ended <- b.register(context.Background(), name) }()
				time.Sleep(500 * time.Millisecond) //nolint:forbidigo // takes no time in a bubble
				b.SetMembers([]shard.Member{b.members["b"].Member})
				require.Equal(t, row.answeredBy, status.Convert(<-ended).Message())
				require.GreaterOrEqual(t, time.Since(began), row.soonest)
				require.LessOrEqual(t, time.Since(began), row.latest)
			})
		})
	}
}

// TestOneConnectionHangs has all connections to a member in use, of which one hangs, as when a table on its way has
// forgotten it. That does not make the member a suspect: the connection is replaced, as soon as a member that hangs is
// found out.
func TestOneConnectionHangs(t *testing.T) {
	t.Parallel()
	const connections = 4
	for i := range connections {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			inBubble(t, proxy.Options{}, []string{"a"}, func(t *testing.T, b *bubble) {
				t.Helper()
				f := nseFlavour()
				store := newStore()
				b.members["a"].set(store.script)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var heard [2]chan *registry.NetworkServiceEndpointResponse // by watch, of which each has a connection
				for i := range heard {
					heard[i] = make(chan *registry.NetworkServiceEndpointResponse, 100)
					go func() {
						stream := bare{streamchannel.NewNetworkServiceEndpointFindServer(ctx, heard[i])}
						_ = b.NetworkServiceEndpointRegistryServer().Find(f.query("", true).(*registry.NetworkServiceEndpointQuery), stream)
					}()
				}
				registerAll := func() {
					var group sync.WaitGroup
					for _, name := range namesOf("name", 16) {
						group.Go(func() { assert.NoError(t, b.register(t.Context(), name)) })
					}
					group.Wait()
				}
				registerAll()
				time.Sleep(10 * time.Second) //nolint:forbidigo // takes no time in a bubble
				for i := range heard {
					require.NotEmpty(t, heard[i])
					for len(heard[i]) > 0 {
						<-heard[i]
					}
				}
				require.Len(t, b.connections(), connections)

				b.connections()[i].frozen.Store(true)
				began := time.Now()
				registerAll()
				require.LessOrEqual(t, time.Since(began), 3500*time.Millisecond)
				store.put(f, f.item("later"))
				tooLate := time.After(10 * time.Second)
				for i := range heard {
					for name := ""; name != "later"; {
						select {
						case r := <-heard[i]:
							name = r.GetNetworkServiceEndpoint().GetName()
						case <-tooLate:
							require.Fail(t, "not heard", "by watch %d", i)
						}
					}
				}
				require.Equal(t, proxy.StateLive, b.state("a"))
			})
		})
	}
}

// TestAHungConnectionThatCanNotBeReplaced: the member still answers on another one, but what waits on this one must not wait
// for ever.
func TestAHungConnectionThatCanNotBeReplaced(t *testing.T) {
	t.Parallel()
	inBubble(t, proxy.Options{}, []string{"a", "b"}, func(t *testing.T, b *bubble) {
		t.Helper()
		b.settled(t, "a")
		var names []string
		for _, name := range namesOf("name", 100) {
			if route, ok := b.Locate(shard.NSEKey(name)); ok && route.Member == "a" {
				names = append(names, name)
			}
		}
		registerAll := func() (answered map[string]int) {
			var mu sync.Mutex
			var group sync.WaitGroup
			answered = make(map[string]int)
			for _, name := range names {
				group.Go(func() {
					err := b.register(t.Context(), name)
					mu.Lock()
					defer mu.Unlock()
					answered[status.Convert(err).Message()]++
				})
			}
			group.Wait()
			return answered
		}
		require.Equal(t, map[string]int{"a": len(names)}, registerAll())
		connections := slices.DeleteFunc(b.connections(), func(c *icyConn) bool { return c.member != "a" })
		require.Len(t, connections, 2)

		b.blocked.Store("a")
		connections[1].frozen.Store(true)
		began := time.Now()
		answered := registerAll()
		require.Positive(t, answered["b"])
		require.Equal(t, len(names), answered["a"]+answered["b"], "%v", answered)
		require.LessOrEqual(t, time.Since(began), 6*time.Second)
		require.Equal(t, proxy.StateSuspect, b.state("a"))

		b.blocked.Store("")
		time.Sleep(5 * time.Second) //nolint:forbidigo // takes no time in a bubble
		require.Equal(t, proxy.StateLive, b.state("a"))
	})
}

// bare is a stream for responses alone.
type bare struct {
	registry.NetworkServiceEndpointRegistry_FindServer
}

func (bare) SetHeader(metadata.MD) error  { return nil }
func (bare) SendHeader(metadata.MD) error { return nil }
func (bare) SetTrailer(metadata.MD)       {}

// TestCallTimeout has a member that answers its probes, and no calls.
func TestCallTimeout(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name             string
		option, deadline time.Duration // of the proxy and the caller; 0: none
		want             time.Duration
	}{
		{"a caller without a deadline gets the default", 0, 0, proxy.DefaultCallTimeout},
		{"a caller without a deadline gets the one that is set", 3 * time.Second, 0, 3 * time.Second},
		{"a caller's own shorter deadline counts", 3 * time.Second, time.Second, time.Second},
		{"a caller's own longer deadline counts", 3 * time.Second, time.Hour, time.Hour},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, proxy.Options{CallTimeout: row.option}, []string{"a"}, func(t *testing.T, b *bubble) {
				t.Helper()
				b.members["a"].set((*call).untilDone)
				ctx := context.Background()
				if row.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, row.deadline)
					defer cancel()
				}
				began := time.Now()
				requireCode(t, codes.DeadlineExceeded, b.register(ctx, "name"))
				require.Equal(t, row.want, time.Since(began))
			})
		})
	}
}

// TestEmptyGrace has members that vanish all at once, which happens when a control plane restarts.
func TestEmptyGrace(t *testing.T) {
	t.Parallel()
	const (
		grace = 30 * time.Second
		kept  = "live, kept though not listed as ready: all members vanished at once"
		gone  = "left, gone"
	)
	phase := func(b *bubble, p shard.Phase) []shard.Member {
		described := describe(b.members)
		for i := range described {
			described[i].Phase = p
		}
		return described
	}
	pass := func(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // takes no time in a bubble
	for _, row := range []struct {
		name string
		run  func(t *testing.T, b *bubble)
	}{
		{"they are kept while they answer, and dropped after the grace", func(t *testing.T, b *bubble) {
			t.Helper()
			b.SetMembers(nil)
			require.Equal(t, map[string]string{"a": kept, "b": kept}, b.summary())
			pass(grace - time.Second)
			b.SetMembers(nil) // does not prolong it
			require.Equal(t, map[string]string{"a": kept, "b": kept}, b.summary())
			require.NoError(t, b.register(t.Context(), "name"))
			pass(2 * time.Second)
			require.Equal(t, map[string]string{"a": gone, "b": gone}, b.summary())
			requireCode(t, codes.Unavailable, b.register(t.Context(), "name"))
		}},
		{"who does not answer is dropped at once", func(t *testing.T, b *bubble) {
			t.Helper()
			b.SetMembers(nil)
			b.members["a"].kill()
			pass(1100 * time.Millisecond)
			require.Equal(t, map[string]string{"a": gone, "b": kept}, b.summary())
			require.NoError(t, b.register(t.Context(), "name"))
			b.members["b"].kill()
			pass(1100 * time.Millisecond)
			require.Equal(t, map[string]string{"a": gone, "b": gone}, b.summary())
		}},
		{"who does not answer when it begins is not kept", func(t *testing.T, b *bubble) {
			t.Helper()
			b.members["a"].kill()
			pass(1100 * time.Millisecond)
			require.Equal(t, proxy.StateSuspect, b.state("a"))
			b.SetMembers(nil)
			require.Equal(t, map[string]string{"a": gone, "b": kept}, b.summary())
		}},
		{"a new set replaces them", func(t *testing.T, b *bubble) {
			t.Helper()
			b.SetMembers(nil)
			pass(time.Second)
			b.SetMembers([]shard.Member{b.members["b"].Member})
			require.Equal(t, map[string]string{"a": gone, "b": "live, ready"}, b.summary())
			pass(time.Minute)
			require.Equal(t, map[string]string{"a": gone, "b": "live, ready"}, b.summary())
		}},
		{"the same set comes back, and all is as before", func(t *testing.T, b *bubble) {
			t.Helper()
			ended := make(chan error, 1)
			b.members["a"].set(func(c *call) error {
				pass(10 * time.Second)
				return obliging(c)
			})
			name := b.nameAt(t, "a")
			go func() { ended <- b.register(context.Background(), name) }()
			pass(time.Second)
			b.SetMembers(nil)
			pass(time.Second)
			b.SetMembers(describe(b.members))
			require.Equal(t, map[string]string{"a": "live, ready", "b": "live, ready"}, b.summary())
			require.NoError(t, <-ended)
			require.Equal(t, 1, b.members["a"].calls(), "the call in flight was not cut")
			pass(time.Minute)
			require.Equal(t, map[string]string{"a": "live, ready", "b": "live, ready"}, b.summary())
		}},
		{"a second time has a grace of its own", func(t *testing.T, b *bubble) {
			t.Helper()
			b.SetMembers(nil)
			pass(20 * time.Second)
			b.SetMembers(describe(b.members))
			b.SetMembers(nil)
			pass(20 * time.Second) // the first grace would be over
			require.Equal(t, map[string]string{"a": kept, "b": kept}, b.summary())
			pass(11 * time.Second)
			require.Equal(t, map[string]string{"a": gone, "b": gone}, b.summary())
		}},
		{"those that are terminating are not kept", func(t *testing.T, b *bubble) {
			t.Helper()
			b.SetMembers(phase(b, shard.Terminating))
			require.Equal(t, map[string]string{"a": "left, terminating", "b": "left, terminating"}, b.summary())
			b.SetMembers(nil)
			require.Equal(t, map[string]string{"a": gone, "b": gone}, b.summary())
			began := time.Now()
			requireCode(t, codes.Unavailable, b.register(t.Context(), "name"))
			require.Equal(t, proxy.DefaultNoBackendWait, time.Since(began))
		}},
		{"those that are not ready are kept", func(t *testing.T, b *bubble) {
			t.Helper()
			b.SetMembers(phase(b, shard.NotReady))
			require.Equal(t, map[string]string{"a": kept, "b": kept}, b.summary())
		}},
		{"scaled to 0 with a dead process it takes one probe", func(t *testing.T, b *bubble) {
			t.Helper()
			for _, m := range b.members {
				m.kill()
			}
			b.SetMembers(nil)
			pass(1100 * time.Millisecond)
			require.Equal(t, map[string]string{"a": gone, "b": gone}, b.summary())
			require.Empty(t, b.NotReady())
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, proxy.Options{EmptyGrace: grace}, []string{"a", "b"}, func(t *testing.T, b *bubble) {
				t.Helper()
				pass(10 * time.Second)
				require.Equal(t, proxy.StateLive, b.state("a"))
				row.run(t, b)
			})
		})
	}
	t.Run("without a grace nobody is kept", func(t *testing.T) {
		t.Parallel()
		inBubble(t, proxy.Options{}, []string{"a", "b"}, func(t *testing.T, b *bubble) {
			t.Helper()
			b.SetMembers(nil)
			require.Equal(t, map[string]string{"a": gone, "b": gone}, b.summary())
		})
	})
}

// summary is the state of the members in short, when all that is under way has been done.
func (b *bubble) summary() map[string]string {
	b.state("")
	return summary(&front{Proxy: b.Proxy})
}

// TestAnOutageDoesNotMultiplyCalls has many calls, of which none can be answered.
func TestAnOutageDoesNotMultiplyCalls(t *testing.T) {
	t.Parallel()
	const calls, members = 2000, 3
	metrics := prometheus.NewPedanticRegistry()
	inBubble(t, proxy.Options{Registerer: metrics, ProbeInterval: -1}, []string{"a", "b", "c"}, func(t *testing.T, b *bubble) {
		t.Helper()
		answers(b.members)
		for _, m := range b.members {
			m.kill()
		}
		var group sync.WaitGroup
		for _, name := range namesOf("name", calls) {
			group.Go(func() { assert.Equal(t, codes.Unavailable, status.Code(b.register(context.Background(), name))) })
		}
		group.Wait()
		// The first round asks everybody. What 1000 attempts more can be paid with is saved from quiet times. Who can't pay
		// asks one member every 1.5 to 3 s of the five that a call waits.
		retries := value(t, metrics, "registry_lb_retries_total", nil)
		t.Logf("%.1f attempts a call", retries/calls)
		require.LessOrEqual(t, retries, float64(calls*(2*members+2*3)+2*1000))
	})
}
