// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"path/filepath"
)

const (
	// prefix is in the name of each thing that the cluster makes outside its folder.
	prefix = "registry-lb-e2e"
	// Dir has all files of the cluster.
	Dir = "/var/lib/" + prefix

	controlAddress  = "172.30.0.1"
	controlPrefix   = "172.30.0.0/24"
	serviceNetwork  = "10.96.0.0/16"
	apiServiceIP    = "10.96.0.1"
	dnsServiceIP    = "10.96.0.10"
	podNetwork      = "10.201.0.0/16"
	apiServerPort   = 6443
	bridge          = "cluster"
	controlNetns    = prefix
	clusterDomain   = "cluster.local"
	nodeInterface   = "eth0"
	containerdSock  = "containerd.sock"
	kubeconfigAdmin = "admin.kubeconfig"
)

// Kubeconfig is that of an administrator. It works in the network namespace of the control plane.
func Kubeconfig() string { return filepath.Join(Dir, kubeconfigAdmin) }

// Logs is the folder with the logs of all parts.
func Logs() string { return filepath.Join(Dir, "log") }

// nodes are the names of the nodes; the place of a node in it gives its addresses.
func nodes() []Node { return []Node{{1}, {2}} }

// Node is a machine of the cluster.
type Node struct {
	number int
}

// Nodes returns all nodes.
func Nodes() []Node { return nodes() }

// Name is the node's name, and Zone that of the zone it is in.
func (n Node) Name() string { return fmt.Sprintf("node%d", n.number) }

// Zone is the value of the label topology.kubernetes.io/zone.
func (n Node) Zone() string { return fmt.Sprintf("zone%d", n.number) }

func (n Node) address() string      { return fmt.Sprintf("172.30.0.%d", 10+n.number) }
func (n Node) pods() string         { return fmt.Sprintf("10.201.%d.0/24", n.number) }
func (n Node) netns() string        { return fmt.Sprintf("%s-%d", prefix, n.number) }
func (n Node) uplink() string       { return fmt.Sprintf("node%d", n.number) }
func (n Node) dir() string          { return filepath.Join(Dir, n.Name()) }
func (n Node) cgroup() string       { return prefix + "/" + n.Name() }
func (n Node) socket() string       { return filepath.Join(n.dir(), containerdSock) }
func (n Node) anchor() string       { return filepath.Join(n.dir(), "anchor.pid") }
func (n Node) file(s string) string { return filepath.Join(n.dir(), s) }

func netnsPath(name string) string { return "/run/netns/" + name }
