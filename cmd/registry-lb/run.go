// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/networkservicemesh/registry-lb/internal/config"
	"github.com/networkservicemesh/registry-lb/internal/demo"
	"github.com/networkservicemesh/registry-lb/internal/logging"
)

const (
	exitFine    = 0
	exitFailure = 1
	exitUsage   = 2
	// exitNo is an answer that means no.
	exitNo = 3
)

// programs are what the commands run.
type programs struct {
	serve func(ctx context.Context, cfg *config.Config, log *zap.Logger) error
	demo  func(ctx context.Context, o demo.Options) error
}

// runError is an error met while running, as opposed to one in the configuration or on the command line.
type runError struct {
	error
	// logged errors have been told already.
	logged bool
	// code is that of the process.
	code int
}

func (e runError) Unwrap() error { return e.error }

// run does what args say and returns the exit code. Each line of an error is a line on stderr.
func run(ctx context.Context, p programs, args []string, stdout, stderr io.Writer) int {
	root, err := newCommand(ctx, p, stderr)
	if err == nil {
		root.SetArgs(args)
		root.SetOut(stdout)
		root.SetErr(stderr)
		err = root.Execute()
	}
	if err == nil {
		return exitFine
	}
	failure := runError{code: exitUsage}
	if errors.As(err, &failure) && failure.logged {
		return failure.code
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "registry-lb: %s\n", strings.TrimRight(line, "\n"))
	}
	return failure.code
}

// newCommand returns the command line; its commands run until ctx ends. The log goes to stderr.
func newCommand(ctx context.Context, p programs, stderr io.Writer) (*cobra.Command, error) {
	var table strings.Builder
	if err := config.Usage(&table); err != nil {
		return nil, err
	}
	root := &cobra.Command{
		Use:   "registry-lb",
		Short: "Front door of an NSM registry that runs as several replicas",
		Long: "registry-lb sends each call about one network service endpoint to the one replica of the registry that holds it.\n" +
			"Without a command it serves. It is configured by its environment:\n\n" + table.String(),
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(*cobra.Command, []string) error { return serve(ctx, p, stderr) },
	}
	root.AddCommand(newAskCommands(ctx)...)
	root.AddCommand(
		newDemoCommand(ctx, p.demo, stderr),
		newGiveBackCommand(ctx),
		&cobra.Command{
			Use:   "version",
			Short: "Print the version",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "registry-lb "+describeBuild(version))
				return failed(err)
			},
		},
	)
	return root, nil
}

// serve reads the environment and runs until ctx ends.
func serve(ctx context.Context, p programs, stderr io.Writer) error {
	cfg, warnings, err := config.Load()
	if err != nil {
		for _, w := range warnings {
			err = errors.Join(err, errors.New("warning: "+w))
		}
		return err
	}
	log, level := logging.New(zapcore.Lock(zapcore.AddSync(stderr)), cfg.LogFormat, cfg.LogLevel)
	logging.Install(log, level)
	for _, w := range warnings {
		log.Warn(w)
	}
	log.Info("starting", zap.String("version", describeBuild(version)), zap.Stringer("backends", cfg.Backends),
		zap.Stringer("listen_on", cfg.ListenOn), zap.Stringer("admin_listen_on", cfg.AdminListenOn))
	err = p.serve(ctx, cfg, log)
	// Stopping when asked to is no failure, however the program says it.
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		log.Info("stopped")
		return nil
	}
	log.Error("failed", zap.Error(err))
	return runError{err, true, exitFailure}
}

// failed marks err as met while running.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return runError{error: err, code: exitFailure}
}
