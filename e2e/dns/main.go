// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS with those plugins alone that a cluster of the end-to-end tests needs: all of them would
// take minutes more to build.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() { coremain.Run() }
