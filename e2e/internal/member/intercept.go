// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"

	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"google.golang.org/grpc"
)

// silent returns ctx for what is not to be logged. The SDK logs to standard error, however its global logger is set,
// unless the context has a logger of its own.
func silent(ctx context.Context) context.Context { return log.WithLog(ctx, log.Empty()) }

// intercept returns the server options that have the recorder note calls to l.
func intercept(r *Recorder, l Life) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			r.note(ctx, l)
			return handler(silent(ctx), req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			r.note(stream.Context(), l)
			return handler(srv, silentStream{ServerStream: stream, ctx: silent(stream.Context())})
		}),
	}
}

type silentStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // it is the stream's
}

// Context returns the stream's context with a logger that says nothing.
func (s silentStream) Context() context.Context { return s.ctx }
