// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/networkservicemesh/registry-lb/internal/demo"
	"github.com/networkservicemesh/registry-lb/internal/logging"
)

// newDemoCommand returns the command that shows what registry-lb does.
func newDemoCommand(ctx context.Context, show func(context.Context, demo.Options) error, stderr io.Writer) *cobra.Command {
	var nses int
	var verbose bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show, in one process and without a cluster, what registry-lb does",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if nses < 1 {
				return fmt.Errorf("--nses %d: at least one NSE is needed", nses)
			}
			// Replicas die in the demo, and the libraries have a lot to say about that.
			level := logging.FatalLevel
			if verbose {
				level = logging.InfoLevel
			}
			log, at := logging.New(zapcore.Lock(zapcore.AddSync(stderr)), logging.Console, level)
			logging.Install(log, at)
			terminal := isTerminal(cmd.OutOrStdout())
			return failed(show(ctx, demo.Options{
				Out:      cmd.OutOrStdout(),
				Terminal: terminal,
				Bold:     terminal && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == "",
				NSEs:     nses,
				Log:      log,
			}))
		},
	}
	cmd.Flags().IntVar(&nses, "nses", 200, "how many NSEs there are")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "write the log to standard error")
	return cmd
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
