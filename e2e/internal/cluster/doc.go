// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a real Kubernetes on one plain Linux machine, as root and without a container registry: etcd, the
// control plane and CoreDNS in a network namespace of their own, and two nodes, each with a network and a mount namespace
// of its own, a kubelet, a containerd and a kube-proxy, in two zones.
//
// Nothing of the machine's own network is touched. All processes are in one tree of control groups and all files in one
// folder, so [Down] finds everything again, also after a crash of whoever called [Up], and leaves nothing behind. There is
// one cluster a machine.
package cluster
