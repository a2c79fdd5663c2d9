// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
)

// given counts the addresses that were given away.
var given atomic.Uint32

// ownAddress returns an address of the loopback network that nobody else listens on, now or later, and from which nobody
// connects: the host is of this process alone, and the port is below those that the kernel chooses. The sandbox chooses
// free ports of 127.0.0.1 and takes each some time later; whoever gets one of these in between makes a test fail. So all
// servers of a test but those whose address the sandbox does not let one choose are elsewhere.
func ownAddress() string {
	const (
		firstPort, ports = 20_000, 10_000
		firstNet, nets   = 64, 128
	)
	pid, n := os.Getpid(), given.Add(1)
	return fmt.Sprintf("127.%d.%d.%d:%d", firstNet+pid/ports%nets, n>>8&0xff, n&0xff, firstPort+pid%ports)
}

// ownURL is an own address as a URL.
func ownURL() *url.URL { return &url.URL{Scheme: "tcp", Host: ownAddress()} }
