// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

func TestNew(t *testing.T) {
	client := fake.NewClientset()
	for _, tc := range []struct {
		sentence string
		spec     Spec
		options  Options
		describe string
		err      string
	}{
		{sentence: "a static list needs nothing", spec: Spec{Scheme: Static, Addrs: []string{"a:1"}}, describe: "static list"},
		{sentence: "a file needs nothing", spec: Spec{Scheme: File, Path: "/m"}, describe: "file /m"},
		{sentence: "a Service is named with its port", spec: Spec{Scheme: Kubernetes, Namespace: "ns", Service: "svc", Port: Port{Name: "p"}},
			options: Options{Client: client}, describe: `Service "ns/svc" (port p)`},
		{sentence: "a Service is named with its port number", spec: Spec{Scheme: Kubernetes, Namespace: "ns", Service: "svc", Port: Port{Number: 1}},
			options: Options{Client: client}, describe: `Service "ns/svc" (port 1)`},
		{sentence: "a Service without namespace is in our own", spec: Spec{Scheme: Kubernetes, Service: "svc"},
			options: Options{Client: client, Namespace: "own"}, describe: `Service "own/svc"`},
		{sentence: "a given namespace wins over our own", spec: Spec{Scheme: Kubernetes, Namespace: "ns", Service: "svc"},
			options: Options{Client: client, Namespace: "own"}, describe: `Service "ns/svc"`},
		{sentence: "a Service whose namespace nobody knows cannot be followed", spec: Spec{Scheme: Kubernetes, Service: "svc"},
			options: Options{Client: client}, err: `namespace of Service "svc" is not known: write k8s://NAMESPACE/svc, or set POD_NAMESPACE`},
		{sentence: "a Service needs a client", spec: Spec{Scheme: Kubernetes, Namespace: "ns", Service: "svc"}, err: `no Kubernetes client to follow Service "svc" with`},
		{sentence: "a Service needs a name", spec: Spec{Scheme: Kubernetes}, err: "without a Service name"},
		{sentence: "a static list needs an address", spec: Spec{Scheme: Static}, err: "static list without addresses"},
		{sentence: "a file needs a path", spec: Spec{Scheme: File}, err: "file source without a path"},
		{sentence: "the zero spec is nothing", err: `unknown kind of source "", known are k8s://`},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			source, err := New(tc.spec, tc.options)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.describe, source.Describe())
			require.NoError(t, source.Err())
		})
	}
}

func TestStaticGivesItsListOnceAndSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, err := New(Spec{Scheme: Static, Addrs: []string{"b:1", "a:2"}}, Options{})
		require.NoError(t, err)
		f := follow(t, source)
		synctest.Wait()
		require.Equal(t, [][]string{{"a:2 ready a:2", "b:1 ready b:1"}}, f.all())
		require.NoError(t, source.Err())
		require.NoError(t, f.stop())
	})
}

func TestPublisherLeavesOutWhatIsNotNew(t *testing.T) {
	m := shard.Member{Name: "a", UID: "u", Addrs: []string{"x:1"}, Node: "n", Zone: "z"}
	for _, tc := range []struct {
		sentence string
		change   func(*shard.Member)
		calls    int
	}{
		{"an equal snapshot is not sent", func(m *shard.Member) { m.Addrs = []string{"x:1"} }, 1},
		{"another name is sent", func(m *shard.Member) { m.Name = "b" }, 2},
		{"another UID is sent", func(m *shard.Member) { m.UID = "v" }, 2},
		{"another address is sent", func(m *shard.Member) { m.Addrs = []string{"y:1"} }, 2},
		{"one more address is sent", func(m *shard.Member) { m.Addrs = []string{"x:1", "y:1"} }, 2},
		{"another node is sent", func(m *shard.Member) { m.Node = "o" }, 2},
		{"another zone is sent", func(m *shard.Member) { m.Zone = "o" }, 2},
		{"another phase is sent", func(m *shard.Member) { m.Phase = shard.NotReady }, 2},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			calls := 0
			p := publisher{update: func([]shard.Member) { calls++ }}
			require.True(t, p.publish([]shard.Member{m}))
			changed := m
			tc.change(&changed)
			require.Equal(t, tc.calls == 2, p.publish([]shard.Member{changed}))
			require.Equal(t, tc.calls, calls)
		})
	}
	t.Run("the first snapshot is sent even if it is empty", func(t *testing.T) {
		calls := 0
		p := publisher{update: func([]shard.Member) { calls++ }}
		require.True(t, p.publish(nil))
		require.False(t, p.publish([]shard.Member{}))
		require.Equal(t, 1, calls)
	})
}

func TestAFaultIsLoggedOncePerChange(t *testing.T) {
	logger, logs := newTestLogger()
	f := newFault(logger)
	f.clear()
	require.Empty(t, logs.All(), "what was never broken is not mended")
	f.set("kind", errors.New("read 10.0.0.1:4711: reset"))
	f.set("kind", errors.New("read 10.0.0.1:4712: reset"))
	require.Len(t, logs.All(), 1)
	require.EqualError(t, f.get(), "read 10.0.0.1:4711: reset")
	f.set("other", errors.New("other"))
	require.Len(t, logs.All(), 2)
	require.EqualError(t, f.get(), "other")
	f.clear()
	f.clear()
	require.Len(t, logs.All(), 3)
	require.NoError(t, f.get())
	f.set("kind", errors.New("again"))
	require.Len(t, logs.All(), 4)
}

func newTestLogger() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	return zap.New(core), logs
}

// follower runs a source and keeps what it says.
type follower struct {
	cancel  context.CancelFunc
	done    chan error
	updates chan []string // unread snapshots
	seen    [][]string
}

func follow(t *testing.T, source Source) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{cancel: cancel, done: make(chan error, 1), updates: make(chan []string, 10_000)}
	go func() {
		f.done <- source.Run(ctx, func(members []shard.Member) { f.updates <- show(members) })
	}()
	t.Cleanup(cancel)
	return f
}

// all returns all snapshots so far.
func (f *follower) all() [][]string {
	for {
		select {
		case update := <-f.updates:
			f.seen = append(f.seen, update)
		default:
			return f.seen
		}
	}
}

// last returns the newest snapshot, nil if there is none.
func (f *follower) last() []string {
	all := f.all()
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// stop ends the run and returns what it returned.
func (f *follower) stop() error {
	f.cancel()
	return <-f.done
}
