// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/networkservicemesh/registry-lb/internal/cli"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	// askTimeout is enough for a registry-lb that is busy, and not so long that one takes a hung one for slow.
	askTimeout = 5 * time.Second
	// askInterval is that of watch(1).
	askInterval = 2 * time.Second
	// minInterval spares registry-lb.
	minInterval = 100 * time.Millisecond
)

// exitCodes ends the help of the commands that ask. no is what exit code 3 means.
func exitCodes(no string) string {
	text := "\n\nExit codes:\n" +
		"  0  it was answered, or a watch was ended\n" +
		"  1  registry-lb can't be asked\n" +
		"  2  the command line can't be read"
	if no != "" {
		text += "\n  3  " + no
	}
	return text
}

// asking is how a command that asks is called.
type asking struct {
	admin             string
	output            cli.Output
	watch             bool
	interval, timeout time.Duration
}

// newAskCommands returns the commands that ask a registry-lb that runs.
func newAskCommands(ctx context.Context) []*cobra.Command {
	return []*cobra.Command{
		newAskCommand(ctx, &cobra.Command{
			Use:   "members",
			Short: "Show the members of a registry-lb that runs",
			Long: "Shows the members, which are the replicas of the registry: the state of each, since when and why, its share of new\n" +
				"keys, how many keys it holds, and how many calls wait for its answer." + exitCodes(""),
			Args: cobra.NoArgs,
		}, func([]string) cli.Question { return cli.Members() }),
		newLocateCommand(ctx),
		newAskCommand(ctx, &cobra.Command{
			Use:   "status",
			Short: "Show whether a registry-lb that runs is ready, and what it knows",
			Long: "Shows whether registry-lb is ready, whether its directory of holders is in sync with the registries, and how many keys\n" +
				"each member holds. The checksum is that of members and ring: replicas of registry-lb that agree have the same." +
				exitCodes("registry-lb is not ready"),
			Args: cobra.NoArgs,
		}, func([]string) cli.Question { return cli.Status() }),
	}
}

func newLocateCommand(ctx context.Context) *cobra.Command {
	var ns bool
	cmd := newAskCommand(ctx, &cobra.Command{
		Use:   "locate NAME",
		Short: "Show the member to which calls about an NSE go, and why",
		Long: "Shows the member to which a call about the NSE called NAME goes now, or about the network service with --ns. The reason\n" +
			"is \"holder\" if the member holds it, with the time since when, as far as that is known, and \"ring\" if nobody is known\n" +
			"to hold it: it is where it would be registered." +
			exitCodes("there is no member"),
		Example: "  registry-lb locate nse-17\n  registry-lb locate --ns my-service -o json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" || !utf8.ValidString(args[0]) {
				return fmt.Errorf("locate %q: one NAME is expected, as in registry-lb locate nse-17", args)
			}
			return nil
		},
	}, func(args []string) cli.Question {
		space := shard.NSE
		if ns {
			space = shard.NS
		}
		return cli.Locate(space, args[0])
	})
	cmd.Flags().BoolVar(&ns, "ns", false, "NAME is a network service")
	return cmd
}

// newAskCommand makes cmd ask the question that its arguments stand for.
func newAskCommand(ctx context.Context, cmd *cobra.Command, question func(args []string) cli.Question) *cobra.Command {
	a := asking{output: cli.Table}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := a.options(cmd)
		if err != nil {
			return err
		}
		return answered(cli.Show(ctx, o, question(args)))
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	flags := cmd.Flags()
	flags.StringVar(&a.admin, "admin", "", "`URL` of the admin API, http://host:port or unix:///path (default http://127.0.0.1:9090, or what\n"+
		"NSM_ADMIN_LISTEN_ON says where that is set)")
	flags.VarP(&a.output, "output", "o", "how to show the answer: a table for people, or the JSON of the API")
	flags.BoolVarP(&a.watch, "watch", "w", false, "ask again and again until interrupted")
	flags.DurationVar(&a.interval, "interval", askInterval, "how long after an answer --watch asks again")
	flags.DurationVar(&a.timeout, "timeout", askTimeout, "how long each answer may take")
	complete := map[string]cobra.CompletionFunc{"output": cobra.FixedCompletions(cli.Outputs(), cobra.ShellCompDirectiveNoFileComp)}
	for _, name := range []string{"admin", "interval", "timeout"} {
		complete[name] = cobra.NoFileCompletions
	}
	for name, f := range complete {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(name, f))
	}
	return cmd
}

// options checks the flags.
func (a *asking) options(cmd *cobra.Command) (o cli.Options, err error) {
	if a.timeout <= 0 {
		return o, fmt.Errorf("--timeout %s: it has to be more than 0", a.timeout)
	}
	if a.interval < minInterval {
		return o, fmt.Errorf("--interval %s: it has to be %s or more", a.interval, minInterval)
	}
	target, err := a.target()
	if err != nil {
		return o, err
	}
	o = cli.Options{
		Target: target, Output: a.output, Timeout: a.timeout,
		Terminal: isTerminal(cmd.OutOrStdout()) && os.Getenv("TERM") != "dumb",
		Out:      cmd.OutOrStdout(), Err: cmd.ErrOrStderr(),
	}
	if a.watch {
		o.Interval = a.interval
	}
	return o, nil
}

// target returns whom to ask. In a pod of registry-lb the environment says where that listens.
func (a *asking) target() (cli.Target, error) {
	if a.admin != "" {
		target, err := cli.ParseTarget(a.admin)
		if err != nil {
			return target, fmt.Errorf("--admin %q: %w", a.admin, err)
		}
		return target, nil
	}
	listenOn := os.Getenv("NSM_ADMIN_LISTEN_ON")
	target, err := cli.TargetOf(listenOn)
	if err != nil {
		return target, fmt.Errorf("NSM_ADMIN_LISTEN_ON=%q: %w; name the address with --admin", listenOn, err)
	}
	return target, nil
}

// answered gives the error of a question its exit code.
func answered(err error) error {
	switch {
	case errors.Is(err, cli.ErrNotReady):
		return runError{err, true, exitNo}
	case errors.Is(err, cli.ErrNoMember):
		return runError{err, false, exitNo}
	default:
		return failed(err)
	}
}
