// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// forwardMetadata returns the context for calls to members: deadline, cancellation and metadata of the caller.
func forwardMetadata(ctx context.Context) context.Context {
	incoming, ok := metadata.FromIncomingContext(ctx)
	if !ok {
		return ctx
	}
	return metadata.NewOutgoingContext(ctx, endToEnd(incoming))
}

// endToEnd drops from md, which it changes, what is between two neighbours only. What gRPC itself sets for a call
// ("content-type", "user-agent", names with a colon, ...) it leaves out of what it sends without our help.
func endToEnd(md metadata.MD) metadata.MD {
	delete(md, "grpc-accept-encoding")
	return md
}
