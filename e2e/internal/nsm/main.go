// SPDX-License-Identifier: Apache-2.0

package nsm

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kelseyhightower/envconfig"
)

// Main reads the configuration from variables that begin with NSM_, runs a command until SIGTERM, and exits.
func Main[C any](run func(ctx context.Context, config C) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var config C
	err := envconfig.Process("nsm", &config)
	if err == nil {
		err = run(Quiet(ctx), config)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
