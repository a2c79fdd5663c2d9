// SPDX-License-Identifier: Apache-2.0

// Command registry-lb is the front door of a Network Service Mesh registry that runs as several replicas: it sends each
// call about one network service endpoint to the one replica that holds that endpoint.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/networkservicemesh/registry-lb/internal/app"
	"github.com/networkservicemesh/registry-lb/internal/demo"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	ctx, stop := untilSignal(context.Background(), signals, os.Exit)
	code := run(ctx, programs{serve: app.Run, demo: demo.Run}, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
