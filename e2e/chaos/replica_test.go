// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/networkservicemesh/sdk-k8s/pkg/tools/k8s/client/clientset/versioned"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
)

const (
	envMemberName   = "CHAOS_MEMBER_NAME"
	envMemberStore  = "CHAOS_MEMBER_STORE"
	envMemberExpiry = "CHAOS_MEMBER_EXPIRY"

	// inMemory takes the place of the store's URL for replicas that share none: the SDK's memory registry.
	inMemory = "memory"

	// memberStart is how long a replica may take to start on a busy machine.
	memberStart = 20 * time.Second
)

// runMember is a replica's main: registry-k8s on the store of the test (or a memory registry), with an identity and a
// gRPC server of its own.
// It writes its address to standard output.
func runMember() error {
	expiry, err := time.ParseDuration(os.Getenv(envMemberExpiry))
	if err != nil {
		return fmt.Errorf("%s: %w", envMemberExpiry, err)
	}
	registry := member.Memory(expiry)
	if store := os.Getenv(envMemberStore); store != inMemory {
		client, err := versioned.NewForConfig(&rest.Config{Host: store, QPS: -1})
		if err != nil {
			return fmt.Errorf("make a client of the store: %w", err)
		}
		registry = patient(member.Kubernetes(client, expiry))
	}
	m, err := member.Start(member.Options{Name: os.Getenv(envMemberName), UID: "1", Registry: registry})
	if err != nil {
		return fmt.Errorf("start the member: %w", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	if _, err := fmt.Println(m.Addrs[0]); err != nil { //nolint:forbidigo // it is the command's output
		return fmt.Errorf("tell the address: %w", err)
	}
	<-signals
	m.Stop()
	return nil
}

// replica is one place for a registry replica, and the processes that live there one after the other. Clients reach it
// through a relay, whose address stays.
type replica struct {
	name   string
	relay  *relay
	tb     testing.TB
	store  string
	log    string
	expiry time.Duration

	mu      sync.Mutex
	process *process
}

func newReplica(tb testing.TB, name, store string, expiry time.Duration, logs string) *replica {
	tb.Helper()
	r := &replica{name: name, tb: tb, store: store, expiry: expiry, log: filepath.Join(logs, name+".log"), relay: newRelay(tb)}
	r.start()
	return r
}

// start begins a new life.
func (r *replica) start() {
	executable, err := os.Executable()
	require.NoError(r.tb, err)
	command := exec.Command(executable, "-test.run=^$") //nolint:noctx // the test ends it
	out, in, err := os.Pipe()
	require.NoError(r.tb, err)
	defer func() { _ = out.Close() }()
	command.Stdout = in
	p := startProcess(r.tb, command, r.log, envMemberName+"="+r.name, envMemberStore+"="+r.store, envMemberExpiry+"="+r.expiry.String())
	_ = in.Close() // the process has its own
	require.NoError(r.tb, out.SetReadDeadline(time.Now().Add(memberStart)))
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(r.tb, err, "replica %s did not start", r.name)
	addr := strings.TrimSpace(line)
	_, _, err = net.SplitHostPort(addr)
	require.NoError(r.tb, err)
	r.relay.setTargets(func() []string { return []string{addr} })
	r.mu.Lock()
	r.process = p
	r.mu.Unlock()
}

// current returns the process of the present life.
func (r *replica) current() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}
