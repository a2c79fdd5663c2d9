// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"encoding/json"

	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// accepts says whether answers of members are checked.
func (p *Proxy) accepts() bool { return p.options.Hop != nil && p.options.Hop.Accept != nil }

// ask makes one unary call about key and has the answer checked, as the SDK's client element authorize does. A refusal
// counts as a status that the member gave. The first one of a call is marked stale if the connections are not new: what a
// member signs with a renewed certificate can't be checked with the one that it showed before.
func (p *Proxy) ask(ctx context.Context, r *rpc, key shard.Key, m *member, c *conns, repeated bool, req, resp proto.Message) answer {
	if !p.accepts() {
		return invoke(ctx, c.of(key), r.fullMethod, req, resp)
	}
	var who peer.Peer
	a := invoke(ctx, c.of(key), r.fullMethod, req, resp, grpc.Peer(&who))
	if a.err != nil {
		return a
	}
	refusal := p.options.Hop.Accept(peer.NewContext(ctx, &who), Authorization{
		Key:     key,
		Path:    answeredPath(ctx, a.header),
		OwnedBy: func(id string) shard.Ownership { return p.table.OwnedBy(key, id) },
	})
	switch {
	case refusal == nil:
		return a
	case !repeated && p.options.Clock.Since(c.born) >= minConnsAge:
		a.stale = true
		return a
	}
	a.err = refusal
	p.options.Log.Warn("the answer of a member was refused", zap.String("member", m.Name), zap.Stringer("space", key.Space),
		zap.String("name", key.Name[:min(len(key.Name), maxLoggedName)]), zap.Error(refusal))
	if r.method == methodRegister && p.table.OwnedBy(key, "") == shard.OwnerUnknown {
		p.undo(ctx, r, key, m, c, resp)
	}
	return a
}

// undo unregisters what was registered just now and must not be. The caller has no say in how long that may take.
func (p *Proxy) undo(ctx context.Context, r *rpc, key shard.Key, m *member, c *conns, registered proto.Message) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.options.CallTimeout)
	defer cancel()
	if a := invoke(ctx, c.of(key), "/"+r.service+"/"+methodUnregister, registered, new(emptypb.Empty)); a.err != nil {
		p.options.Log.Warn("what was registered in spite of that can't be unregistered", zap.String("member", m.Name), zap.Error(a.err))
	}
}

// answeredPath is the path of a call as it came back, or as it was sent if none did. A call that came without a path has
// an empty one here as well; see authorize.
func answeredPath(ctx context.Context, header metadata.MD) *grpcmetadata.Path {
	if o, ok := ctx.Value(originKey{}).(*origin); !ok || o.pathless {
		return new(grpcmetadata.Path)
	}
	if values := header[pathHeader]; len(values) > 0 {
		path := new(grpcmetadata.Path)
		if json.Unmarshal([]byte(values[len(values)-1]), path) == nil {
			return path
		}
	}
	return grpcmetadata.PathFromContext(ctx)
}
