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
func newCluster(t *testing.T, replicas, balancers int, expiry time.Duration) *cluster {
	t.Helper()
	c := &cluster{store: kubestore.New(kubestore.Options{})}
	c.startReplicas(t, replicas, serveStore(t, c.store), expiry)
	c.startBalancers(t, balancers, "shared")
	return c
}

// newPartitionedCluster is newCluster with registries that share no store.
func newPartitionedCluster(t *testing.T, replicas, balancers int, expiry time.Duration) *cluster {
	t.Helper()
	c := new(cluster)
	c.startReplicas(t, replicas, inMemory, expiry)
	c.startBalancers(t, balancers, "partitioned")
	return c
}

// newPlainCluster has no registry-lb: clients connect to the replicas as a Service would have them, in turn.
func newPlainCluster(t *testing.T, replicas int, store string, expiry time.Duration) *cluster {
	t.Helper()
	c := new(cluster)
	c.startReplicas(t, replicas, store, expiry)
	c.service = newRelay(t)
	var next atomic.Uint32
	c.service.setTargets(func() []string {
		return []string{c.replicas[int(next.Add(1))%len(c.replicas)].relay.addr()}
	})
	return c
}

// startBalancers starts so many registry-lb in front of the replicas, with this NSM_STORE, and a Service.
func (c *cluster) startBalancers(t *testing.T, balancers int, store string) {
	t.Helper()
	binary, logs := buildLB(t), t.TempDir()
	for i := range balancers {
		c.balancers = append(c.balancers, newBalancer(t, fmt.Sprintf("registry-lb-%d", i), binary, store, c.members.path, logs))
	}
	c.service = newService(t, c.balancers)
}

// startReplicas starts so many replicas and lists them in the members file.
func (c *cluster) startReplicas(t *testing.T, replicas int, store string, expiry time.Duration) {
	t.Helper()
	c.members = newMembersFile(t)
	logs := t.TempDir()
	for i := range replicas {
		r := newReplica(t, fmt.Sprintf("registry-k8s-%d", i), store, expiry, logs)
		c.replicas = append(c.replicas, r)
		c.members.set(r.relay.addr(), true)
	}
}

// membersFile is the file that registry-lb reads its members from.
type membersFile struct {
	t    *testing.T
	path string

	mu     sync.Mutex
	listed []string
}

func newMembersFile(t *testing.T) *membersFile {
	t.Helper()
	return &membersFile{t: t, path: filepath.Join(t.TempDir(), "members")}
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
	require.NoError(f.t, os.WriteFile(next, []byte(strings.Join(f.listed, "\n")+"\n"), 0o600))
	require.NoError(f.t, os.Rename(next, f.path))
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
