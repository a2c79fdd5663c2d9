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
	out := forwardMetadata(ctx)
	a, err := p.do(out, key, pathIDs, true, func(ctx context.Context, m *member) answer {
		return m.invoke(ctx, r.fullMethod, key, req, resp)
	})
	if err == nil {
		if err = a.err; err == nil {
			learn(a.from)
			p.learnIdentity(a)
		}
		// The only errors here say that ctx is not that of a gRPC server: a chain may be called without one.
		_ = grpc.SetHeader(ctx, endToEnd(a.header))
		_ = grpc.SetTrailer(ctx, endToEnd(a.trailer))
	}
	r.observe(p.options.Clock.Since(began), err)
	return err
}
