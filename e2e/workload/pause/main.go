// SPDX-License-Identifier: Apache-2.0

// Command pause keeps the namespaces of a pod until it is told to end.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// As the first process of its namespace it would get children that nobody waits for; ignored, they vanish.
	signal.Ignore(syscall.SIGCHLD)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
}
