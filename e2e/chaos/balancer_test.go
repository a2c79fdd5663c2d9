// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/internal/loopback"
)

const (
	// balancerStart is how long registry-lb may take to be ready.
	balancerStart = 30 * time.Second
	// balancerStop is more than its drain delay and timeout together.
	balancerStop = 40 * time.Second
	// readinessPeriod is how often a Service looks who is ready. A kubelet takes longer, but not over a lost process.
	readinessPeriod = 100 * time.Millisecond
)

// balancer is one place for a registry-lb, and the processes that live there one after the other.
type balancer struct {
	tb      testing.TB
	binary  string
	log     string
	addr    string
	admin   string
	store   string // NSM_STORE
	members string

	mu      sync.Mutex
	process *process
	ready   atomic.Bool
}

// newBalancer starts a registry-lb that reads its members from the file members and whose NSM_STORE is store, and waits
// until it is ready.
func newBalancer(tb testing.TB, name, binary, store, members, logs string) *balancer {
	tb.Helper()
	b := &balancer{tb: tb, binary: binary, store: store, members: members, log: filepath.Join(logs, name+".log"), addr: loopback.Address(), admin: loopback.Address()}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	b.start()
	group.Go(func() { b.observe(ctx) })
	tb.Cleanup(func() {
		cancel()
		group.Wait()
		if tb.Failed() {
			tb.Logf("the end of the log of %s:\n%s", name, tail(b.log))
		}
	})
	require.True(tb, b.awaitReady(ctx), "%s is not ready:\n%s", name, tail(b.log))
	return b
}

// start begins a new life, and does not wait until it is ready.
func (b *balancer) start() {
	p := startProcess(b.tb, exec.Command(b.binary), b.log, //nolint:noctx // the test ends it
		"NSM_LISTEN_ON=tcp://"+b.addr,
		"NSM_ADMIN_LISTEN_ON=tcp://"+b.admin,
		"NSM_BACKENDS=file://"+b.members,
		"NSM_TLS=insecure",
		"NSM_STORE="+b.store,
	)
	b.mu.Lock()
	b.process = p
	b.mu.Unlock()
}

// current returns the process of the present life.
func (b *balancer) current() *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.process
}

func (b *balancer) awaitReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, balancerStart)
	defer cancel()
	for !b.ready.Load() {
		if !pause(ctx, readinessPeriod) {
			return false
		}
	}
	return true
}

// observe keeps up to date whether it is ready.
func (b *balancer) observe(ctx context.Context) {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		b.ready.Store(b.isReady(ctx, &client))
		if !pause(ctx, readinessPeriod) {
			return
		}
	}
}

func (b *balancer) isReady(ctx context.Context, client *http.Client) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.admin+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	response, err := client.Do(r)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// newService returns the address of a Service over all of them: each connection goes to the next one that is ready.
func newService(tb testing.TB, balancers []*balancer) *relay {
	tb.Helper()
	r := newRelay(tb)
	var next atomic.Uint32
	r.setTargets(func() []string {
		var ready []string
		first := int(next.Add(1))
		for i := range balancers {
			if b := balancers[(first+i)%len(balancers)]; b.ready.Load() {
				ready = append(ready, b.addr)
			}
		}
		return ready
	})
	return r
}
