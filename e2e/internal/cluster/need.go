// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// needed are commands, and the Debian packages that have them.
func needed() map[string]string {
	return map[string]string{
		"containerd": "containerd", "ctr": "containerd", "runc": "runc", "iptables": "iptables", "nft": "nftables",
		"conntrack": "conntrack", "ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux", cniFolder + "/bridge": "containernetworking-plugins",
	}
}

const cniFolder = "/usr/lib/cni"

// Check says what the machine lacks; nil if a cluster can be made.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("a cluster needs root: namespaces, mounts and control groups are made; run it as root")
	}
	missing := make(map[string]bool)
	for command, pkg := range needed() {
		if _, err := exec.LookPath(command); err != nil {
			missing[pkg] = true
		}
	}
	if len(missing) > 0 {
		names := make([]string, 0, len(missing))
		for name := range missing {
			names = append(names, name)
		}
		return fmt.Errorf("packages are missing (names as in Debian); install them: apt-get install -y --no-install-recommends %s", strings.Join(sorted(names), " "))
	}
	if len(hierarchies()) == 0 {
		return fmt.Errorf("no control groups are mounted below %s", cgroupRoot)
	}
	return nil
}
