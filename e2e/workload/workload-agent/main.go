// SPDX-License-Identifier: Apache-2.0

// Command workload-agent is the SPIFFE Workload API of a node, for clusters without SPIRE: it finds out which pod a caller
// is, as SPIRE's agent does, and gives it the SVID of NSM's template, spiffe://DOMAIN/ns/NAMESPACE/pod/POD.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/networkservicemesh/registry-lb/e2e/internal/nsm"
	"github.com/networkservicemesh/registry-lb/internal/identity/workloadtest"
)

type config struct {
	// Socket is where to listen, NodeName the node that this is, Authority the file with the key of the trust domain.
	Socket    string        `default:"/run/spire/sockets/agent.sock" split_words:"true"`
	NodeName  string        `required:"true" split_words:"true"`
	Authority string        `default:"/authority/authority.pem" split_words:"true"`
	Lifetime  time.Duration `default:"10m" split_words:"true"`
}

func main() { nsm.Main(run) }

func run(ctx context.Context, c config) error {
	text, err := os.ReadFile(c.Authority)
	if err != nil {
		return fmt.Errorf("read the key of the trust domain: %w", err)
	}
	authority, err := workloadtest.ParseAuthority(text)
	if err != nil {
		return fmt.Errorf("read the key of the trust domain from %s: %w", c.Authority, err)
	}
	kube, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	client, err := kubernetes.NewForConfig(kube)
	if err != nil {
		return fmt.Errorf("make the client of the API server: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(c.Socket), 0o755); err != nil {
		return fmt.Errorf("make the folder of the socket: %w", err)
	}
	if err := os.Remove(c.Socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take away the socket from before: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", c.Socket)
	if err != nil {
		return fmt.Errorf("listen for workloads: %w", err)
	}
	// Workloads run as anybody.
	if err := os.Chmod(c.Socket, 0o777); err != nil {
		return fmt.Errorf("open the socket to all: %w", err)
	}
	server := grpc.NewServer(grpc.Creds(callers{}))
	workload.RegisterSpiffeWorkloadAPIServer(server, &agent{
		authority: authority, lifetime: c.Lifetime, pods: &pods{client: client, node: c.NodeName, known: make(map[string]pod)},
	})
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(l); err != nil {
		return fmt.Errorf("serve workloads: %w", err)
	}
	return nil
}
