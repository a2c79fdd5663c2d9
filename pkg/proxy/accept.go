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

// asking is one unary call, as often as it is made.
type asking struct {
	*rpc
	key       shard.Key
	req, resp proto.Message
	// owner is whose the key was before.
	owner shard.KeyOwner
	// repeated says that it was made again on new connections.
	repeated bool
}

// ask makes the call once and has the answer checked, as the SDK's client element authorize does. A refusal
// counts as a status that the member gave. The first one of a call is marked stale if the connections are not new: what a
// member signs with a renewed certificate can't be checked with the one that it showed before.
func (p *Proxy) ask(ctx context.Context, q *asking, m *member, c *conns) answer {
	if !p.accepts() {
		return invoke(ctx, c.of(q.key), q.fullMethod, q.req, q.resp)
	}
	var who peer.Peer
	a := invoke(ctx, c.of(q.key), q.fullMethod, q.req, q.resp, grpc.Peer(&who))
	if a.err != nil {
		return a
	}
	refusal := p.options.Hop.Accept(peer.NewContext(ctx, &who), Authorization{
		Key:     q.key,
		Path:    answeredPath(ctx, a.header),
		OwnedBy: q.owner.Is,
	})
	switch {
	case refusal == nil:
		return a
	case !q.repeated && p.options.Clock.Since(c.born) >= minConnsAge:
		q.repeated, a.stale = true, true
		return a
	}
	a.err = refusal
	p.options.Log.Warn("the answer of a member was refused", zap.String("member", m.Name), zap.Stringer("space", q.key.Space),
		zap.String("name", q.key.Name[:min(len(q.key.Name), maxLoggedName)]), zap.Error(refusal))
	if q.method == methodRegister && !q.owner.Known() {
		p.undo(ctx, q, m, c)
	}
	return a
}

// undo unregisters what was registered just now and must not be. The caller has no say in how long that may take.
func (p *Proxy) undo(ctx context.Context, q *asking, m *member, c *conns) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.options.CallTimeout)
	defer cancel()
	if a := invoke(ctx, c.of(q.key), "/"+q.service+"/"+methodUnregister, q.resp, new(emptypb.Empty)); a.err != nil {
		p.options.Log.Warn("what was registered in spite of that can't be unregistered", zap.String("member", m.Name), zap.Error(a.err))
	}
}

// answeredPath is the path of a call as it came back, or as it was sent if none did. It begins with the client also if
// that did not send one: members are told of it all the same.
func answeredPath(ctx context.Context, header metadata.MD) *grpcmetadata.Path {
	if values := header[pathHeader]; len(values) > 0 {
		path := new(grpcmetadata.Path)
		if json.Unmarshal([]byte(values[len(values)-1]), path) == nil {
			return path
		}
	}
	return grpcmetadata.PathFromContext(ctx)
}
