// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/networkservicemesh/registry-lb/internal/giveback"
	"github.com/networkservicemesh/registry-lb/pkg/endpoints"
)

// newGiveBackCommand returns the command with which the Helm chart ends. People have no use for it, so it is not listed.
func newGiveBackCommand(ctx context.Context) *cobra.Command {
	var o giveback.Options
	command := &cobra.Command{
		Use:    "give-back SERVICE",
		Short:  "Point the Service that clients know at the registry pods again",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			client, namespace, err := endpoints.NewClient()
			if err != nil {
				return failed(err)
			}
			o.Service, o.Namespace = args[0], namespace
			return failed(giveback.Run(ctx, client, o))
		},
	}
	command.Flags().StringVar(&o.Selector, "selector", "", "labels of the registry pods, as in app=registry")
	command.Flags().StringVar(&o.TargetPort, "target-port", "", "port of the registry pods")
	return command
}
