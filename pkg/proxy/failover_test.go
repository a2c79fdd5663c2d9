// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// answers says who answered an operation on name, by a NotFound that names the member: such a status goes back as it is.
func answers(members map[string]*scripted) {
	for name, m := range members {
		m.set(func(*call) error { return status.Error(codes.NotFound, name) })
	}
}

// ringOf is the ring that the proxy should have.
func ringOf(members map[string]*scripted) *shard.Ring {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	return shard.NewRing(names)
}

// keyOf is what decides who answers an operation of [operations] in a shared store.
func (o operation) keyOf(f flavour) shard.Key {
	if o.byName() {
		return f.key("name")
	}
	return shard.NSKey("")
}

// stores are the kinds of store that make a difference.
func (o operation) stores() []proxy.Store {
	if o.isUnary() || o.isList() && o.byName() {
		return []proxy.Store{proxy.SharedStore}
	}
	return []proxy.Store{proxy.SharedStore, proxy.PartitionedStore}
}

// byName says whether an operation is about one name.
func (o operation) byName() bool { return !strings.HasSuffix(o.name, "of all") }

func TestUnreachableMembersAreSkippedInTheOrderOfTheRing(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		members := startScripteds(t, "a", "b", "c", "d")
		answers(members)
		ring := ringOf(members)
		front := startFront(t, proxy.Options{}, describe(members)...)
		dead := make(map[string]bool)
		for range len(members) - 1 {
			want, ok := ring.LocateExcept(op.keyOf(f), func(name string) bool { return dead[name] })
			require.True(t, ok)
			o := op.do(within(t), f, front.cc)
			require.Equal(t, want, status.Convert(o.err).Message())
			dead[want] = true
			members[want].kill()
		}
	})
}

func TestResetConnectionDoesNotMoveTheKey(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		members := startScripteds(t, "a", "b", "c")
		answers(members)
		front := startFront(t, proxy.Options{}, describe(members)...)
		holder := front.holder(t, op.keyOf(f))
		m := members[holder]
		var calls atomic.Int32
		m.set(func(c *call) error {
			if calls.Add(1) == 1 {
				m.reset()
				return c.untilDone()
			}
			return status.Error(codes.NotFound, holder)
		})
		o := op.do(within(t), f, front.cc)
		require.Equal(t, holder, status.Convert(o.err).Message())
		require.EqualValues(t, 2, calls.Load())
	})
}

func TestUnavailableFromAMemberIsNotTriedElsewhere(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		members := startScripteds(t, "a", "b", "c")
		front := startFront(t, proxy.Options{}, describe(members)...)
		calls := func() int { return members["a"].calls() + members["b"].calls() + members["c"].calls() }
		for _, m := range members {
			m.set(func(*call) error { return status.Error(codes.Unavailable, "etcd is down") })
		}
		o := op.do(within(t), f, front.cc)
		require.Equal(t, status.New(codes.Unavailable, "etcd is down").String(), status.Convert(o.err).String())
		require.Equal(t, 1, calls())

		if op.isUnary() || op.isList() {
			// After a header, too.
			for _, m := range members {
				m.set(func(c *call) error {
					_ = c.SendHeader(nil)
					return status.Error(codes.Unavailable, "etcd is down")
				})
			}
			o := op.do(within(t), f, front.cc)
			require.Equal(t, status.New(codes.Unavailable, "etcd is down").String(), status.Convert(o.err).String())
			require.Equal(t, 2, calls())
		}
	})
}

func TestConnectionThatBreaksAfterTheHeaderIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		lose func(m *scripted)
		// moved says that another member has to answer.
		moved bool
	}{
		"the member stays and answers itself": {lose: (*scripted).reset},
		"the member is gone, another answers": {lose: (*scripted).kill, moved: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachOperation(t, func(t *testing.T, f flavour, op operation) {
				t.Helper()
				if !op.isUnary() && !op.isList() {
					return // see TestNamedWatchEndsWithItsMember and TestUnnamedWatchOutlivesItsMember
				}
				members := startScripteds(t, "a", "b", "c")
				answers(members)
				front := startFront(t, proxy.Options{}, describe(members)...)
				first := front.holder(t, op.keyOf(f))
				m := members[first]
				var calls atomic.Int32
				m.set(func(c *call) error {
					if calls.Add(1) > 1 {
						return status.Error(codes.NotFound, first)
					}
					_ = c.SendHeader(nil)
					go row.lose(m)
					return c.untilDone()
				})
				o := op.do(within(t), f, front.cc)
				requireCode(t, codes.NotFound, o.err)
				require.Equal(t, row.moved, status.Convert(o.err).Message() != first)
			})
		})
	}
}

func TestAllMembersDown(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		members := startScripteds(t, "a", "b", "c")
		for _, m := range members {
			m.kill()
		}
		for _, store := range op.stores() {
			if store == proxy.PartitionedStore && op.name == "watch of all" {
				continue // waits for members: see TestPartitionedWatchWaitsForMembers
			}
			const wait = 300 * time.Millisecond
			front := startFront(t, proxy.Options{NoBackendWait: wait, Backends: "the test", Store: store}, describe(members)...)
			began := time.Now()
			o := op.do(within(t), f, front.cc)
			requireCode(t, codes.Unavailable, o.err)
			require.Regexp(t, `none of the 3 members in the test could be reached within [\d.]+m?s; the last was member [abc]: connection error.*connection refused`, o.err.Error())
			took := time.Since(began)
			require.GreaterOrEqual(t, took, wait)
			require.Less(t, took, patience/2)
		}
	})
}

func TestMemberComesBackInTime(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		members := startScripteds(t, "a", "b")
		answers(members)
		registry := prometheus.NewPedanticRegistry()
		front := startFront(t, proxy.Options{NoBackendWait: patience, Registerer: registry}, describe(members)...)
		for _, m := range members {
			m.kill()
		}
		result := make(chan outcome, 1)
		go func() { result <- op.do(within(t), f, front.cc) }()
		require.Eventually(t, func() bool {
			return value(t, registry, "registry_lb_retries_total", nil) >= 3
		}, patience, tick)
		members["b"].restart(t)
		require.Equal(t, "b", status.Convert(await(t, result, "the answer").err).Message())
	})
}

func TestNoMember(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		for _, store := range op.stores() {
			t.Run(string(store), func(t *testing.T) {
				t.Parallel()
				options := proxy.Options{Store: store, Backends: `Service "nsm/registry"`, NoBackendWait: 200 * time.Millisecond}
				front := startFront(t, options)
				began := time.Now()
				o := op.do(within(t), f, front.cc)
				requireCode(t, codes.Unavailable, o.err)
				require.Regexp(t, `no ready member in Service "nsm/registry" after waiting for \d+ms`, o.err.Error())
				require.GreaterOrEqual(t, time.Since(began), options.NoBackendWait)

				options.NoBackendWait = -1
				front = startFront(t, options)
				o = op.do(within(t), f, front.cc)
				requireCode(t, codes.Unavailable, o.err)
				require.Contains(t, o.err.Error(), "after waiting for 0s")
			})
		}
	})
}

func TestReasonComesBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		for _, store := range op.stores() {
			clock := testingclock.NewFakeClock(time.Now())
			front := startFront(t, proxy.Options{Store: store, NoBackendWait: time.Hour, Clock: clock, Backends: "the test"})
			const deadline = time.Minute
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			result := make(chan outcome, 1)
			go func() { result <- op.do(ctx, f, front.cc) }()
			require.Eventually(t, clock.HasWaiters, patience, tick)
			clock.Step(deadline - 5*time.Second)
			require.True(t, clock.HasWaiters())
			clock.Step(30 * time.Second)
			o := await(t, result, "the reason")
			requireCode(t, codes.Unavailable, o.err)
			require.Contains(t, o.err.Error(), "no ready member in the test after waiting for")
		}
	})
}

func TestFirstMemberArrivesInTime(t *testing.T) {
	t.Parallel()
	eachOperation(t, func(t *testing.T, f flavour, op operation) {
		t.Helper()
		for _, store := range op.stores() {
			t.Run(string(store), func(t *testing.T) {
				t.Parallel()
				waiting := make(chan struct{}, 100)
				clock := newSignallingClock(waiting)
				front := startFront(t, proxy.Options{Store: store, NoBackendWait: time.Hour, Clock: clock})
				result := make(chan outcome, 1)
				go func() { result <- op.do(within(t), f, front.cc) }()
				await(t, waiting, "a call that waits")
				members := startScripteds(t, "a")
				answers(members)
				front.SetMembers(describe(members))
				require.Equal(t, "a", status.Convert(await(t, result, "the answer").err).Message())
			})
		}
	})
}

// strangers are servers that are no registry. Each returns its address.
func strangers() map[string]func(t *testing.T) string {
	hangUp := func(answer string) func(t *testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = c.Write([]byte(answer))
					_ = c.Close()
				}
			}()
			t.Cleanup(func() { _ = l.Close(); <-done })
			return l.Addr().String()
		}
	}
	web := func(code int, http2, secure bool) func(t *testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(code)
				_, _ = w.Write([]byte("<html>"))
			}))
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(http2)
			s.Config.Protocols.SetHTTP1(!http2)
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			if secure {
				s.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
				s.StartTLS()
			} else {
				s.Start()
			}
			t.Cleanup(s.Close)
			return s.Listener.Addr().String()
		}
	}
	result := map[string]func(t *testing.T) string{
		"hangs up":    hangUp(""),
		"garbage":     hangUp("\xde\xad\xbe\xef\x00\x01\x02 something else entirely"),
		"HTTP/1":      web(http.StatusOK, false, false),
		"TLS":         web(http.StatusOK, false, true),
		"half HTTP/2": hangUp("\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
	}
	for _, code := range []int{200, 204, 302, 400, 401, 403, 404, 429, 500, 502, 503} {
		result[fmt.Sprintf("HTTP/2 with status %d", code)] = web(code, true, false)
	}
	return result
}

func TestStrangersAreNotRegistries(t *testing.T) {
	t.Parallel()
	for name, start := range strangers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := nseFlavour()
			stranger := shard.Member{Name: "a", UID: "a", Addrs: []string{start(t)}}
			members := startScripteds(t, "b", "c")
			answers(members)

			front := startFront(t, proxy.Options{}, append(describe(members), stranger)...)
			name := front.nameAt(t, f, "a", "name")
			want, _ := shard.NewRing([]string{"b", "c"}).Locate(f.key(name))
			for _, op := range operationsOn(name) {
				if op.byName() {
					require.Equal(t, want, status.Convert(op.do(within(t), f, front.cc).err).Message(), op.name)
				}
			}

			front = startFront(t, proxy.Options{NoBackendWait: 100 * time.Millisecond, Backends: "the test"}, stranger)
			for _, op := range operations() {
				err := op.do(within(t), f, front.cc).err
				requireCode(t, codes.Unavailable, err)
				require.Contains(t, err.Error(), "none of the 1 members in the test could be reached")
				require.Contains(t, err.Error(), "the last was member a: ")
			}
		})
	}
}
