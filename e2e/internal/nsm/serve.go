// SPDX-License-Identifier: Apache-2.0

package nsm

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/networkservicemesh/sdk/pkg/registry"
	"github.com/networkservicemesh/sdk/pkg/tools/grpcutils"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"google.golang.org/grpc"
)

// Config is what NSM's registries have in common, with their names and defaults.
type Config struct {
	ListenOn               url.URL       `default:"tcp://:5002" split_words:"true"`
	MaxTokenLifetime       time.Duration `default:"10m" split_words:"true"`
	RegistryServerPolicies []string      `default:"etc/nsm/opa/common/.*.rego,etc/nsm/opa/registry/.*.rego,etc/nsm/opa/server/.*.rego" split_words:"true"`
	RegistryClientPolicies []string      `default:"etc/nsm/opa/common/.*.rego,etc/nsm/opa/registry/.*.rego,etc/nsm/opa/client/.*.rego" split_words:"true"`
	ExpirePeriod           time.Duration `default:"1m" split_words:"true"`
}

// Serve serves a registry with its gRPC health until ctx ends, and then stops at once, as NSM's registries do.
func Serve(ctx context.Context, listenOn url.URL, identity *Identity, r registry.Registry) error {
	server := grpc.NewServer(identity.ServerOption(), grpc.ChainUnaryInterceptor(quietUnary), grpc.ChainStreamInterceptor(quietStream))
	r.Register(server)
	if err := <-grpcutils.ListenAndServe(ctx, &listenOn, server); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve at %s: %w", listenOn.String(), err)
	}
	return nil
}

// Quiet returns ctx for what is not to be logged; the SDK writes several lines a call.
func Quiet(ctx context.Context) context.Context { return log.WithLog(ctx, log.Empty()) }

func quietUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(Quiet(ctx), req)
}

func quietStream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return handler(server, quiet{stream, Quiet(stream.Context())})
}

// quiet is a stream with another context.
type quiet struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // it is the stream's
}

// Context returns the other context.
func (s quiet) Context() context.Context { return s.ctx }
