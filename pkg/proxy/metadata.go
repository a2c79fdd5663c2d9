// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// forwardMetadata returns the context for calls to members: deadline, cancellation and metadata of the caller.
func (p *Proxy) forwardMetadata(ctx context.Context) context.Context {
	incoming, ok := metadata.FromIncomingContext(ctx)
	if !ok {
		return ctx
	}
	return metadata.NewOutgoingContext(ctx, p.endToEnd(incoming))
}

// endToEnd drops from md, which it changes, what is between two neighbours only. What gRPC itself sets for a call
// ("content-type", "user-agent", names with a colon, ...) it leaves out of what it sends without our help.
func (p *Proxy) endToEnd(md metadata.MD) metadata.MD {
	delete(md, "grpc-accept-encoding")
	if p.options.Hop != nil {
		for _, key := range perHop() {
			delete(md, key)
		}
	}
	return md
}

// ownCall is the metadata that marks calls which registry-lb makes for itself, with what they are for: who reads the log
// of a registry, or counts its calls, can tell them from those of clients.
const ownCall = "registry-lb-purpose"

// markOwn marks calls that are made with the context that it returns.
func markOwn(ctx context.Context, purpose string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, ownCall, purpose)
}
