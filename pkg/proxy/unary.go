// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// unary forwards one call about key and decodes its result into resp. Headers and trailers go back to the caller
// whatever the status is. If the call succeeds, learn is told which member answered.
func (p *Proxy) unary(ctx context.Context, r *rpc, key shard.Key, pathIDs []string, req, resp proto.Message, learn func(m *member)) error {
	began := p.options.Clock.Now()
	out := p.forwardMetadata(ctx)
	if p.options.Hop != nil {
		var err error
		if out, err = withOwnPath(out); err != nil {
			return err
		}
		pathIDs = routeIDs(ctx, pathIDs)
	}
	q := &asking{rpc: r, key: key, req: req, resp: resp}
	if p.accepts() {
		q.owner = p.table.OwnerOf(key)
	}
	a, err := p.do(out, key, pathIDs, true, func(ctx context.Context, m *member, c *conns) answer {
		a := p.ask(ctx, q, m, c)
		if a.err == nil && !a.stale {
			// While the call still counts as one in flight: the next one about the key has to find what this one tells.
			learn(m)
		}
		return a
	})
	if err == nil {
		if err = a.err; err == nil {
			p.learnIdentity(a)
		}
		// The only errors here say that ctx is not that of a gRPC server: a chain may be called without one.
		_ = grpc.SetHeader(ctx, p.endToEnd(a.header))
		_ = grpc.SetTrailer(ctx, p.endToEnd(a.trailer))
	}
	r.observe(p.options.Clock.Since(began), err)
	return err
}
