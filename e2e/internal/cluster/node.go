// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"
)

// private are folders of the machine in whose place a node has its own. Those in memory hold mounts and sockets, which
// must not outlive the node.
func (n Node) private() string {
	var script strings.Builder
	for _, dir := range []string{"/run/netns", "/run/containerd", "/run/spire", "/var/lib/cni"} {
		fmt.Fprintf(&script, "mkdir -p %[1]s && mount -t tmpfs -o mode=755 tmpfs %[1]s\n", dir)
	}
	for _, dir := range []string{"/var/lib/kubelet", "/var/log/pods", "/var/log/containers"} {
		own := n.file(filepath.Base(dir))
		fmt.Fprintf(&script, "mkdir -p %[1]s %[2]s && mount --bind %[2]s %[1]s && mount --make-rshared %[1]s\n", dir, own)
	}
	fmt.Fprintf(&script, "hostname %s\n", n.Name())
	return "set -e\n" + script.String() + "exec sleep infinity\n"
}

// makeNamespaces starts the process that keeps the node's namespaces.
func (n Node) makeNamespaces(ctx context.Context) error {
	name := n.Name() + "-anchor"
	keeper := place{cgroup: n.system(), enter: []string{"nsenter", "--net=" + netnsPath(n.netns()), "unshare", "--mount", "--uts", "--propagation", "private"}}
	if err := keeper.start(name, "sh", "-c", n.private()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	pid, err := os.ReadFile(pidOf(name))
	if err != nil {
		return fmt.Errorf("find the namespaces of %s: %w", n.Name(), err)
	}
	for {
		// All stages became this one process, by exec; the last is sleep, once all is mounted.
		if comm, err := os.ReadFile(filepath.Join("/proc", string(pid), "comm")); err == nil && strings.TrimSpace(string(comm)) == "sleep" {
			break
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("make the namespaces of %s: %w\n%s", n.Name(), err, tail(name))
		}
	}
	return os.WriteFile(n.anchor(), pid, 0o644)
}

func (n Node) containerdConfig() string {
	return fmt.Sprintf(`version = 2
root = %q
state = "/run/containerd/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = %q
[ttrpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  # Without the capability CAP_SYS_RESOURCE the score of a container can't be below that of containerd.
  restrict_oom_score_adj = true
  disable_tcp_service = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
`, n.file("containerd"), n.socket(), n.socket()+".ttrpc", PauseImage, cniFolder, n.file("cni"))
}

func (n Node) cniConfig() string {
	return fmt.Sprintf(`{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}`, n.pods())
}

func (n Node) kubeletConfig() (string, error) {
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + n.socket(),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true},
			"x509": map[string]any{"clientCAFile": pkiFile("ca.crt")},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"tlsCertFile":   pkiFile(n.Name() + ".crt"), "tlsPrivateKeyFile": pkiFile(n.Name() + ".key"),
		"clusterDomain": clusterDomain, "clusterDNS": []string{dnsServiceIP},
		// Names of other places can't be resolved anyway.
		"resolvConf":   "",
		"failCgroupV1": false, "failSwapOn": false,
		"cgroupDriver": "cgroupfs", "cgroupRoot": "/" + n.cgroup(), "enforceNodeAllocatable": []string{},
		"oomScoreAdj":                 0,
		"nodeStatusUpdateFrequency":   "4s",
		"syncFrequency":               "10s",
		"evictionHard":                map[string]string{"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
		"imageGCHighThresholdPercent": 100,
		"maxPods":                     110,
	})
	return string(text), err
}

func (n Node) proxyConfig() (string, error) {
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"clientConnection":   map[string]any{"kubeconfig": filepath.Join(Dir, "kube-proxy.kubeconfig")},
		"mode":               "nftables",
		"clusterCIDR":        podNetwork,
		"hostnameOverride":   n.Name(),
		"conntrack":          map[string]any{"maxPerCore": 0, "min": 0},
		"healthzBindAddress": "127.0.0.1:10256", "metricsBindAddress": "127.0.0.1:10249",
	})
	return string(text), err
}

// start starts the node's runtime, kubelet and proxy, and brings the images in.
func (n Node) start(ctx context.Context, b Binaries) error {
	for _, group := range []string{n.cgroup(), n.system()} {
		if err := makeCgroup(group); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(n.file("cni"), 0o755); err != nil {
		return fmt.Errorf("make the folder of %s: %w", n.Name(), err)
	}
	kubelet, err := n.kubeletConfig()
	if err != nil {
		return fmt.Errorf("configure the kubelet: %w", err)
	}
	proxy, err := n.proxyConfig()
	if err != nil {
		return fmt.Errorf("configure kube-proxy: %w", err)
	}
	for file, text := range map[string]string{
		"containerd.toml": n.containerdConfig(), "cni/10-pods.conflist": n.cniConfig(), "kubelet.yaml": kubelet, "kube-proxy.yaml": proxy,
	} {
		if err := os.WriteFile(n.file(file), []byte(text), 0o644); err != nil {
			return fmt.Errorf("configure %s: %w", n.Name(), err)
		}
	}
	if err := n.makeNamespaces(ctx); err != nil {
		return err
	}
	where, err := n.place()
	if err != nil {
		return err
	}
	if err := where.start(n.Name()+"-containerd", "containerd", "--config", n.file("containerd.toml"), "--log-level", "warn"); err != nil {
		return err
	}
	if err := n.importImages(ctx, b); err != nil {
		return fmt.Errorf("%w\n%s", err, tail(n.Name()+"-containerd"))
	}
	if err := where.start(n.Name()+"-kube-proxy", b.kube("kube-proxy"), "--config="+n.file("kube-proxy.yaml")); err != nil {
		return err
	}
	return n.startKubelet(b)
}

func (n Node) system() string { return n.cgroup() + "/system" }

func (n Node) startKubelet(b Binaries) error {
	where, err := n.place()
	if err != nil {
		return err
	}
	return where.start(n.Name()+"-kubelet", b.kube("kubelet"), "--config="+n.file("kubelet.yaml"),
		"--kubeconfig="+filepath.Join(Dir, n.Name()+".kubeconfig"), "--hostname-override="+n.Name(), "--node-ip="+n.address(),
		"--root-dir=/var/lib/kubelet", "--cert-dir="+n.file("pki"), "--node-labels=topology.kubernetes.io/zone="+n.Zone())
}

// ctr runs containerd's client in the namespace of Kubernetes' containers.
func (n Node) ctr(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"--address", n.socket(), "--namespace", "k8s.io"}, args...)
	out, err := exec.CommandContext(ctx, "ctr", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// importImages waits for the runtime and brings in the images, which are files.
func (n Node) importImages(ctx context.Context, b Binaries) error {
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := n.ctr(ready, "version")
		if err == nil {
			break
		}
		if pause(ready) != nil {
			return fmt.Errorf("containerd of %s does not get ready: %w", n.Name(), err)
		}
	}
	for _, image := range b.Images {
		if _, err := n.ctr(ctx, "images", "import", imageFile(image.Name)); err != nil {
			return err
		}
	}
	return nil
}

// Freeze stops all processes of a container, so that it neither answers nor closes its connections.
func (n Node) Freeze(ctx context.Context, container string) error {
	_, err := n.ctr(ctx, "tasks", "pause", container)
	return err
}

// Thaw lets a frozen container go on.
func (n Node) Thaw(ctx context.Context, container string) error {
	_, err := n.ctr(ctx, "tasks", "resume", container)
	return err
}

// Kill kills the processes of a container.
func (n Node) Kill(ctx context.Context, container string) error {
	out, err := n.ctr(ctx, "containers", "info", container)
	if err != nil {
		return err
	}
	var info struct{ ID string }
	if err := json.Unmarshal([]byte(out), &info); err != nil {
		return fmt.Errorf("read what containerd says of %s: %w", container, err)
	}
	out, err = n.ctr(ctx, "tasks", "ls")
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != info.ID {
			continue
		}
		pid, err := strconv.Atoi(fields[1])
		if err != nil {
			return fmt.Errorf("read the process of %s: %w", container, err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return fmt.Errorf("kill container %s: %w", container, err)
		}
		return nil
	}
	return fmt.Errorf("container %s does not run on %s", container, n.Name())
}
