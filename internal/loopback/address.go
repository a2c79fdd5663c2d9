// SPDX-License-Identifier: Apache-2.0

// Package loopback gives tests addresses of their own.
package loopback

import (
	"fmt"
	"os"
	"sync/atomic"
)

// given counts the addresses that were given away.
var given atomic.Uint32 //nolint:gochecknoglobals // addresses belong to the process

// Address returns a host:port of the loopback network, 127.0.0.0/8, that it returns to nobody else, in this process or in
// another one: the host is of this process alone, as long as fewer than 1.28 million processes start meanwhile, and the
// port is below those that Linux chooses for outgoing connections. So it can be listened on at any time, and again after
// a restart. A port that was merely free a moment ago may be another's by the time that it is used.
//
// It may be called concurrently. After 65536 addresses they are given a second time.
func Address() string {
	const (
		firstPort, ports = 20_000, 10_000
		firstNet, nets   = 64, 128
	)
	pid, n := os.Getpid(), given.Add(1)
	return fmt.Sprintf("127.%d.%d.%d:%d", firstNet+pid/ports%nets, n>>8&0xff, n&0xff, firstPort+pid%ports)
}
