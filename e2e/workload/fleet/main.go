// SPDX-License-Identifier: Apache-2.0

// Command fleet keeps groups of NSEs registered, with the registry client that NSM's nsmgr and NSEs have, and tells over
// HTTP how they fare.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	sdkclient "github.com/networkservicemesh/sdk/pkg/registry/chains/client"

	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
	"github.com/networkservicemesh/registry-lb/e2e/internal/nsm"
)

type config struct {
	ConnectTo        url.URL       `default:"tcp://registry:5002" split_words:"true"`
	DialTimeout      time.Duration `default:"5s" split_words:"true"`
	MaxTokenLifetime time.Duration `default:"10m" split_words:"true"`
}

func main() { nsm.Main(run) }

func run(ctx context.Context, c config) error {
	identity, err := nsm.NewIdentity(ctx, c.MaxTokenLifetime)
	if err != nil {
		return err
	}
	newClient := func(l *ledger) registry.NetworkServiceEndpointRegistryClient {
		return sdkclient.NewNetworkServiceEndpointRegistryClient(ctx,
			sdkclient.WithClientURL(&c.ConnectTo),
			sdkclient.WithDialTimeout(c.DialTimeout),
			sdkclient.WithDialOptions(identity.DialOptions()...),
			sdkclient.WithNSEAdditionalFunctionality(attempts{l}),
		)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf(":%d", fleet.Port))
	if err != nil {
		return fmt.Errorf("listen for orders: %w", err)
	}
	server := &http.Server{Handler: newHandler(ctx, newClient), ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve orders: %w", err)
	}
	return nil
}
