// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const architecture = runtime.GOARCH

// Binaries are what a cluster is made of.
type Binaries struct {
	// Kube is the folder with the parts of Kubernetes and etcd, under their own names.
	Kube string
	// DNS is the binary of CoreDNS.
	DNS string
	// Images are brought into each node.
	Images []Image
}

func (b Binaries) kube(part string) string { return filepath.Join(b.Kube, part) }

// Up starts a cluster and returns when all nodes are ready. One that is there already is taken down first.
func Up(ctx context.Context, b Binaries) error {
	if err := Check(); err != nil {
		return err
	}
	if err := Down(ctx); err != nil {
		return fmt.Errorf("take down the cluster from before: %w", err)
	}
	if err := os.MkdirAll(Dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of the cluster: %w", err)
	}
	if err := b.up(ctx); err != nil {
		return err
	}
	return nil
}

func (b Binaries) up(ctx context.Context) error {
	for _, image := range b.Images {
		if err := image.write(); err != nil {
			return err
		}
	}
	if err := makePKI(); err != nil {
		return err
	}
	if err := makeNetwork(ctx); err != nil {
		return err
	}
	if err := makeCgroup(control().cgroup); err != nil {
		return err
	}
	client, err := b.startControl(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes() {
		if err := os.MkdirAll(n.dir(), 0o755); err != nil {
			return fmt.Errorf("make the folder of %s: %w", n.Name(), err)
		}
		if err := n.start(ctx, b); err != nil {
			return err
		}
	}
	for _, n := range nodes() {
		if err := n.awaitReady(ctx, client); err != nil {
			return fmt.Errorf("%w\n%s", err, tail(n.Name()+"-kubelet"))
		}
	}
	for _, part := range b.parts() {
		if name := filepath.Base(part[0]); !alive(name) {
			return fmt.Errorf("%s has ended\n%s", name, tail(name))
		}
	}
	return nil
}

func newClient() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", Kubeconfig(), err)
	}
	config.QPS = -1
	// The API server is in another network namespace than whoever starts the cluster.
	config.Dial = dialIn(controlNetns)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the client of the API server: %w", err)
	}
	return client, nil
}

func (n Node) awaitReady(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		node, err := client.CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{})
		if err == nil {
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					return nil
				}
			}
		}
		if pause(ctx) != nil {
			return fmt.Errorf("%s does not get ready: %w", n.Name(), errors.Join(err, ctx.Err()))
		}
	}
}

// Down takes the cluster away: processes, mounts, network and files, whatever is left of it. It does nothing if there is
// none.
func Down(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("taking a cluster down needs root, as bringing it up does; run it as root")
	}
	if err := killCgroup(ctx, prefix); err != nil {
		return err
	}
	// With the last process of a mount namespace all its mounts are gone. Those for pods that ended while others lived may
	// have been made in the machine's own, if somebody changed its propagation.
	if err := unmountBelow(Dir); err != nil {
		return err
	}
	if err := removeCgroup(ctx, prefix); err != nil {
		return err
	}
	for _, ns := range netnsNames() {
		if _, err := os.Stat(netnsPath(ns)); err == nil {
			if err := run(ctx, "ip", "netns", "del", ns); err != nil {
				return err
			}
		}
	}
	if err := os.RemoveAll(Dir); err != nil {
		return fmt.Errorf("remove the folder of the cluster: %w", err)
	}
	return leftovers()
}

// leftovers says what is left of a cluster that was taken down; nil if nothing is.
func leftovers() error {
	var left []error
	if pids := processes(prefix); len(pids) > 0 {
		left = append(left, fmt.Errorf("processes %v", pids))
	}
	for _, root := range hierarchies() {
		if _, err := os.Stat(filepath.Join(root, prefix)); err == nil {
			left = append(left, fmt.Errorf("control group %s", filepath.Join(root, prefix)))
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err == nil && strings.Contains(string(mounts), prefix) {
		left = append(left, errors.New("mounts"))
	}
	// Interfaces, addresses and tables are in the namespaces.
	for _, ns := range netnsNames() {
		if _, err := os.Stat(netnsPath(ns)); err == nil {
			left = append(left, fmt.Errorf("network namespace %s", ns))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("something is left of the cluster: %w", errors.Join(left...))
	}
	return nil
}

// unmountBelow takes away mounts in dir, the last one first.
func unmountBelow(dir string) error {
	for _, at := range mountsBelow(dir) {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("unmount %s: %w", at, err)
		}
	}
	return nil
}
