// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/networkservicemesh/sdk-k8s/pkg/tools/k8s/client/clientset/versioned"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/networkservicemesh/registry-lb/e2e/internal/cluster"
)

// Environment that make sets.
const (
	envKube = "E2E_KUBE" // the folder with kubectl and the parts of Kubernetes
	envHelm = "E2E_HELM" // the folder with helm
	envDNS  = "E2E_DNS"  // the folder with CoreDNS
)

// patience is how long anything may take on a busy machine.
const patience = 2 * time.Minute

// tools are what the tests work with. There is one cluster, so there is one of it.
var tools struct {
	kubectl, helm string
	binaries      cluster.Binaries
	kube          kubernetes.Interface
	nsm           versioned.Interface
}

func TestMain(m *testing.M) {
	if err := findTools(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\nthese tests need a cluster: run make e2e, or make cluster-up and make scenarios\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func findTools() error {
	for _, name := range []string{envKube, envHelm, envDNS} {
		if os.Getenv(name) == "" {
			return fmt.Errorf("%s is not set", name)
		}
	}
	tools.kubectl = filepath.Join(os.Getenv(envKube), "kubectl")
	tools.helm = filepath.Join(os.Getenv(envHelm), "helm")
	tools.binaries = cluster.Binaries{Kube: os.Getenv(envKube), DNS: filepath.Join(os.Getenv(envDNS), "coredns")}
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig())
	if err != nil {
		return fmt.Errorf("read the kubeconfig of the cluster: %w", err)
	}
	config.QPS = -1
	if tools.kube, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("make the client of the API server: %w", err)
	}
	if tools.nsm, err = versioned.NewForConfig(config); err != nil {
		return fmt.Errorf("make the client of NSM's resources: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return cluster.AwaitAPI(ctx, tools.kube)
}
