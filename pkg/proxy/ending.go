// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// ending tells how a call to a member ended. A status does not: gRPC gives one to a call whose connection broke, too,
// and once the header of the answer is there it is the same as one that the member could have given without trailers.
type ending struct {
	// complete says that gRPC read the trailer, with which the member ended the call.
	complete atomic.Bool
}

type endingKey struct{}

// observed is ctx for a call whose ending is noted. The connection needs [endings].
func (e *ending) observed(ctx context.Context) context.Context {
	return context.WithValue(ctx, endingKey{}, e)
}

// endings is the [stats.Handler] of connections to members that notes how calls end.
type endings struct{}

// HandleRPC notes that a trailer has been read. gRPC calls it before the call returns.
func (endings) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if _, ok := event.(*stats.InTrailer); !ok {
		return
	}
	if e, ok := ctx.Value(endingKey{}).(*ending); ok {
		e.complete.Store(true)
	}
}

// TagRPC has nothing to add.
func (endings) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn has nothing to add.
func (endings) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn has nothing to note.
func (endings) HandleConn(context.Context, stats.ConnStats) {}
