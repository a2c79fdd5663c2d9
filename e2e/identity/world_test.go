// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/networkservicemesh/sdk/pkg/tools/spiffejwt"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/networkservicemesh/registry-lb/e2e/internal/kubestore"
	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
	"github.com/networkservicemesh/registry-lb/internal/identity/workloadtest"
)

const (
	// patience is how long tests wait for what has to come.
	patience = 30 * time.Second
	// expiry is how long an NSE lives without a refresh. The SDK's element expire counts from it the time that a call
	// may still take, so it has to be well above patience.
	expiry = 10 * time.Minute
	// tick is how often they look.
	tick = 20 * time.Millisecond
)

// world is a cluster: a trust domain, a store, and the list of replicas.
type world struct {
	authority *workloadtest.Authority
	// agent is the Workload API of registry-lb.
	agent    *workloadtest.Server
	store    *kubestore.Store
	listed   string
	replicas []*replica
}

// newWorld is a cluster with so many replicas.
func newWorld(t *testing.T, replicas int) *world {
	t.Helper()
	authority, err := workloadtest.NewAuthority("k8s.nsm")
	require.NoError(t, err)
	dir := shortDir(t)
	w := &world{
		authority: authority,
		agent:     workloadtest.NewServer(filepath.Join(dir, "agent.sock")),
		store:     kubestore.New(kubestore.Options{}),
		listed:    filepath.Join(dir, "replicas"),
	}
	w.renew(t, time.Hour)
	require.NoError(t, w.agent.Start(t.Context()))
	t.Cleanup(w.agent.Stop)
	for i := range replicas {
		w.replicas = append(w.replicas, w.startReplica(t, fmt.Sprintf("registry-k8s-%d", i)))
	}
	w.list(t)
	return w
}

// shortDir is a folder with a path so short that a socket fits in.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lb") //nolint:usetesting // the name of the test would make it too long
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// renew gives registry-lb another SVID.
func (w *world) renew(t *testing.T, lifetime time.Duration) {
	t.Helper()
	svid, err := w.authority.Issue("/ns/"+member.Namespace+"/pod/registry-lb", lifetime)
	require.NoError(t, err)
	require.NoError(t, w.agent.Set(svid, w.authority))
}

// rotate gives registry-lb and the replicas other short-lived SVIDs again and again. What it returns stops that, and says
// how many there were.
func (w *world) rotate(t *testing.T, lifetime, every time.Duration) (stop func() int) {
	t.Helper()
	w.renew(t, lifetime)
	for _, r := range w.replicas {
		require.NoError(t, r.renew(w.authority, lifetime))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				done <- n
				return
			case <-ticker.C:
			}
			svid, err := w.authority.Issue("/ns/"+member.Namespace+"/pod/registry-lb", lifetime)
			if err == nil {
				err = w.agent.Set(svid, w.authority)
			}
			if err != nil {
				t.Errorf("renew the SVID: %v", err)
			}
			for _, r := range w.replicas {
				if err := r.renew(w.authority, lifetime); err != nil {
					t.Errorf("renew the SVID of %s: %v", r.ID(), err)
				}
			}
		}
	}()
	stop = sync.OnceValue(func() int { cancel(); return <-done })
	t.Cleanup(func() { stop() })
	return stop
}

// list tells registry-lb of the replicas.
func (w *world) list(t *testing.T) {
	t.Helper()
	addrs := make([]string, 0, len(w.replicas))
	for _, r := range w.replicas {
		addrs = append(addrs, r.addr)
	}
	next := w.listed + ".next"
	require.NoError(t, os.WriteFile(next, []byte(strings.Join(addrs, "\n")+"\n"), 0o600))
	require.NoError(t, os.Rename(next, w.listed))
}

// replicaOf is the replica with this SPIFFE ID.
func (w *world) replicaOf(t *testing.T, id string) *replica {
	t.Helper()
	for _, r := range w.replicas {
		if r.ID() == id {
			return r
		}
	}
	require.Failf(t, "no replica", "has the SPIFFE ID %s", id)
	return nil
}

// stored is how many NSEs there are.
func (w *world) stored(t *testing.T) int {
	t.Helper()
	list, err := w.store.Client().NetworkservicemeshV1().NetworkServiceEndpoints("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	return len(list.Items)
}

// party is a workload of the cluster.
type party struct {
	*workloadtest.Workload
	// sign makes its tokens.
	sign token.GeneratorFunc
}

func (w *world) party(t *testing.T, pod string) party {
	t.Helper()
	svid, err := w.authority.Issue("/ns/"+member.Namespace+"/pod/"+pod, time.Hour)
	require.NoError(t, err)
	workload := workloadtest.NewWorkload(svid, w.authority)
	return party{Workload: workload, sign: spiffejwt.TokenGeneratorFunc(workload, 10*time.Minute)}
}

// renew gives a party another SVID with the same ID.
func (p party) renew(authority *workloadtest.Authority, lifetime time.Duration) error {
	current, err := p.GetX509SVID()
	if err != nil {
		return err
	}
	svid, err := authority.Issue(current.ID.Path(), lifetime)
	if err != nil {
		return err
	}
	p.Renew(svid)
	return nil
}

// within is a context that ends with the test, or after patience.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
