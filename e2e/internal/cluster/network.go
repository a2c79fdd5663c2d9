// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"strings"
)

// makeNetwork makes the network namespaces: a bridge in that of the control plane, and each node at it by a veth pair.
func makeNetwork(ctx context.Context) error {
	lines := []string{
		"netns add " + controlNetns,
		"-n CONTROL link set lo up",
		"-n CONTROL link add BRIDGE type bridge",
		"-n CONTROL addr add " + controlAddress + "/24 dev BRIDGE",
		"-n CONTROL link set BRIDGE up",
	}
	for _, n := range nodes() {
		replace := strings.NewReplacer("NODE", n.netns(), "UPLINK", n.uplink(), "ADDRESS", n.address(), "PODS", n.pods())
		for _, line := range []string{
			"netns add NODE",
			"-n NODE link set lo up",
			"-n CONTROL link add UPLINK type veth peer name " + nodeInterface + " netns NODE",
			"-n CONTROL link set UPLINK master BRIDGE up",
			"-n NODE addr add ADDRESS/24 dev " + nodeInterface,
			"-n NODE link set " + nodeInterface + " up",
			"-n NODE route add default via " + controlAddress,
			"-n CONTROL route add PODS via ADDRESS",
		} {
			lines = append(lines, replace.Replace(line))
		}
	}
	for _, n := range nodes() {
		for _, other := range nodes() {
			if other != n {
				lines = append(lines, "-n "+n.netns()+" route add "+other.pods()+" via "+other.address())
			}
		}
	}
	replace := strings.NewReplacer("CONTROL", controlNetns, "BRIDGE", bridge)
	for _, line := range lines {
		if err := run(ctx, "ip", strings.Fields(replace.Replace(line))...); err != nil {
			return err
		}
	}
	for _, ns := range netnsNames() {
		if err := run(ctx, "nsenter", "--net="+netnsPath(ns), "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"); err != nil {
			return err
		}
	}
	return nil
}

func netnsNames() []string {
	names := make([]string, 0, 1+len(nodes()))
	names = append(names, controlNetns)
	for _, n := range nodes() {
		names = append(names, n.netns())
	}
	return names
}

// Cut takes the node off the network, as when it dies: nobody is told.
func (n Node) Cut(ctx context.Context) error {
	return run(ctx, "ip", "-n", controlNetns, "link", "set", n.uplink(), "down")
}

// Mend puts the node back on the network.
func (n Node) Mend(ctx context.Context) error {
	return run(ctx, "ip", "-n", controlNetns, "link", "set", n.uplink(), "up")
}
