// SPDX-License-Identifier: Apache-2.0

// Command cluster brings up a Kubernetes on this machine, takes it down, or does both around another command. The
// scripts in e2e build what it needs; make cluster-up, make cluster-down and make e2e call it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/networkservicemesh/registry-lb/e2e/internal/cluster"
)

// downTimeout is how long taking down may take, whatever has happened before.
const downTimeout = 2 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(os.Stderr).ExecuteContext(ctx)
	stop()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		os.Exit(exit.ExitCode())
	default:
		fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
		os.Exit(1)
	}
}

func newCommand(stderr io.Writer) *cobra.Command {
	var kube, dns, images string
	root := &cobra.Command{Use: "cluster", Short: "A Kubernetes for tests", SilenceUsage: true, SilenceErrors: true}
	binaries := func() cluster.Binaries { return withImages(kube, dns, images) }
	flags := func(command *cobra.Command) *cobra.Command {
		command.Flags().StringVar(&kube, "kube", "", "folder with the parts of Kubernetes (e2e/build kube)")
		command.Flags().StringVar(&dns, "dns", "", "folder with CoreDNS (e2e/build dns)")
		command.Flags().StringVar(&images, "images", "", "folder with the static binaries of which images are made (e2e/workload/build)")
		for _, name := range []string{"kube", "dns", "images"} {
			_ = command.MarkFlagRequired(name)
		}
		return command
	}
	up := func(ctx context.Context) error {
		began := time.Now()
		if err := cluster.Up(ctx, binaries()); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "cluster: up after %.1f s; logs are in %s\n", time.Since(began).Seconds(), cluster.Logs())
		return nil
	}
	root.AddCommand(
		flags(&cobra.Command{
			Use: "up", Short: "Bring the cluster up", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return up(cmd.Context()) },
		}),
		&cobra.Command{
			Use: "image NAME BINARY ARCHIVE", Short: "Write the image of registry-lb, as Dockerfile makes it, without a registry", Args: cobra.ExactArgs(3),
			RunE: func(_ *cobra.Command, args []string) error {
				return cluster.RegistryLB(args[0], args[1]).Write(args[2])
			},
		},
		&cobra.Command{
			Use: "check", Short: "Say what this machine lacks", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return cluster.Check() },
		},
		&cobra.Command{
			Use: "down", Short: "Take it down, whatever is left of it", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return down() },
		},
		&cobra.Command{
			Use: "exec -- COMMAND [ARGUMENT]...", Short: "Run a command where the API server and pods can be reached", Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return inside(cmd.Context(), args) },
		},
		flags(&cobra.Command{
			Use: "run -- COMMAND [ARGUMENT]...", Short: "Bring it up, run a command in it as exec does, and take it down", Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) (err error) {
				defer func() { err = errors.Join(err, down()) }()
				if err := up(cmd.Context()); err != nil {
					return err
				}
				return inside(cmd.Context(), args)
			},
		}),
	)
	return root
}

func down() error {
	// Who interrupts wants the cluster to be gone, too.
	ctx, cancel := context.WithTimeout(context.Background(), downTimeout)
	defer cancel()
	return cluster.Down(ctx)
}

func inside(ctx context.Context, args []string) error {
	command := cluster.Command(ctx, args...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	return command.Run()
}

// withImages makes an image of each binary in the folder.
func withImages(kube, dns, images string) cluster.Binaries {
	b := cluster.Binaries{Kube: kube, DNS: filepath.Join(dns, "coredns")}
	b.Images = append(b.Images, cluster.RegistryLB(cluster.ImageName("registry-lb"), filepath.Join(images, "registry-lb")))
	for binary, user := range map[string]string{
		"pause": "65535:65535", "registry-k8s": "", "registry-memory": "", "workload-agent": "", "fleet": "65532:65532",
	} {
		b.Images = append(b.Images, cluster.Image{
			Name: cluster.ImageName(binary), Binary: filepath.Join(images, binary), User: user,
		})
	}
	return b
}
