// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/e2e/internal/kubestore"
)

// cluster is a registry with all its parts.
type cluster struct {
	store     *kubestore.Store
	replicas  []*replica
	balancers []*balancer
	members   *membersFile
	// service is where clients connect.
	service *relay
}

// newCluster starts a registry of so many registry-k8s and registry-lb, and ends it with the test.
func newCluster(tb testing.TB, replicas, balancers int, expiry time.Duration) *cluster {
	tb.Helper()
	c := &cluster{store: kubestore.New(kubestore.Options{})}
	c.startReplicas(tb, replicas, serveStore(tb, c.store), expiry)
	c.startBalancers(tb, balancers, "shared")
	return c
}

// newPartitionedCluster is newCluster with registries that share no store.
func newPartitionedCluster(tb testing.TB, replicas, balancers int, expiry time.Duration) *cluster {
	tb.Helper()
	c := new(cluster)
	c.startReplicas(tb, replicas, inMemory, expiry)
	c.startBalancers(tb, balancers, "partitioned")
	return c
}

// newPlainCluster has no registry-lb: clients connect to the replicas as a Service would have them, in turn.
func newPlainCluster(tb testing.TB, replicas int, store string, expiry time.Duration) *cluster {
	tb.Helper()
	c := new(cluster)
	c.startReplicas(tb, replicas, store, expiry)
	c.service = newRelay(tb)
	var next atomic.Uint32
	c.service.setTargets(func() []string {
		return []string{c.replicas[int(next.Add(1))%len(c.replicas)].relay.addr()}
	})
	return c
}

// startBalancers starts so many registry-lb in front of the replicas, with this NSM_STORE, and a Service.
func (c *cluster) startBalancers(tb testing.TB, balancers int, store string) {
	tb.Helper()
	binary, logs := buildLB(tb), tb.TempDir()
	for i := range balancers {
		c.balancers = append(c.balancers, newBalancer(tb, fmt.Sprintf("registry-lb-%d", i), binary, store, c.members.path, logs))
	}
	c.service = newService(tb, c.balancers)
}

// startReplicas starts so many replicas and lists them in the members file.
func (c *cluster) startReplicas(tb testing.TB, replicas int, store string, expiry time.Duration) {
	tb.Helper()
	c.members = newMembersFile(tb)
	logs := tb.TempDir()
	for i := range replicas {
		r := newReplica(tb, fmt.Sprintf("registry-k8s-%d", i), store, expiry, logs)
		c.replicas = append(c.replicas, r)
		c.members.set(r.relay.addr(), true)
	}
}

// membersFile is the file that registry-lb reads its members from.
type membersFile struct {
	tb   testing.TB
	path string

	mu     sync.Mutex
	listed []string
}

func newMembersFile(tb testing.TB) *membersFile {
	tb.Helper()
	return &membersFile{tb: tb, path: filepath.Join(tb.TempDir(), "members")}
}

// set lists addr, or lists it no more.
func (f *membersFile) set(addr string, listed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed = slices.DeleteFunc(f.listed, func(a string) bool { return a == addr })
	if listed {
		f.listed = append(f.listed, addr)
	}
	next := f.path + ".next"
	require.NoError(f.tb, os.WriteFile(next, []byte(strings.Join(f.listed, "\n")+"\n"), 0o600))
	require.NoError(f.tb, os.Rename(next, f.path))
}

// tail returns the last lines of a log, those of gRPC left out: who is not there is in the others.
func tail(path string) string {
	const lines = 20
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(content)), "\n"), func(line string) bool {
		return strings.Contains(line, `"logger":"grpc"`)
	})
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
