// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// Hop makes the proxy a hop in the NSM path, as nsmgr is one: with mutual TLS it has to be, because a registry checks
// that the last token of the path was signed by its TLS peer.
//
//   - The path of a Register or Unregister gets a segment with a token of the proxy's own, by the SDK's element
//     updatepath, and its path_ids are cut after the proxy's own: updatepath overwrites by index and would leave a longer
//     tail of former days to be stored.
//   - The caller is checked before the call goes on.
//   - The call carries the proxy's own token for the member in place of the caller's. That is for the credentials in
//     [Options.DialOptions] to add.
//   - The path comes back in a response header, cut after the proxy's own segment: what follows is made anew at each
//     call, and a client that later talks to a registry directly must not bring along what it can't check.
type Hop struct {
	// Tokens signs the proxy's own tokens; the audience is taken from the AuthInfo.
	Tokens token.GeneratorFunc
	// Authorize says whether a call about key may go on; nil means that all may. owner says whether a SPIFFE ID is that
	// of who registered the key. An error goes back to the caller as it is.
	Authorize func(ctx context.Context, call Authorization) error
	// Accept says whether the answer of a member to a Register or Unregister may be passed on; nil means that all may. The
	// path is the one that came back, and the peer in ctx is the member. An error goes back to the caller as it is. What
	// was registered then is unregistered again, unless it had been there before: that is what the SDK's client element
	// authorize does. Before an answer is refused, the call is repeated once on new connections to the member, in case
	// that its certificate was renewed.
	Accept func(ctx context.Context, answer Authorization) error
}

// Authorization is what there is to know about a call that asks to go on, or an answer that asks to come back.
type Authorization struct {
	// Key is what the call is about.
	Key shard.Key
	// Path is the path of the call or the answer, the proxy's own segment at Path.Index; empty if the call came without
	// one.
	Path *grpcmetadata.Path
	// OwnedBy says what the directory knows about whether a SPIFFE ID registered the key.
	OwnedBy func(id string) shard.Ownership
}

// Metadata that is between two neighbours on the path (SDK packages token and grpcmetadata).
const (
	tokenHeader        = "nsm-client-token"         //nolint:gosec // the name of a header
	tokenExpiresHeader = "nsm-client-token-expires" //nolint:gosec // the name of a header
)

// maxLoggedName is how much of a name is logged, in bytes: all of one that Kubernetes takes, not all of one that is
// meant to fill the log.
const maxLoggedName = 253

// perHop are the keys of metadata that a hop replaces.
func perHop() []string { return []string{tokenHeader, tokenExpiresHeader, pathHeader} }

// originKey is the key of what the context says about a call before the hop changed it.
type originKey struct{}

// origin is what a call brought along, and what has become of it.
type origin struct {
	// pathIDs are those of the request, for routing: the member's ID may be beyond where they are cut.
	pathIDs []string
	// pathless says that there was no path in the metadata, or none that can be read.
	pathless bool
	// admitted says that the caller may do what it asks for.
	admitted bool
}

// begin takes the path out of the metadata, as the SDK's element grpcmetadata does, except that a call without one gets
// an empty one that all elements share: its client is to be the first in the path, not this proxy.
func begin(ctx context.Context, pathIDs []string) (context.Context, *grpcmetadata.Path, *origin, error) {
	path, o := new(grpcmetadata.Path), &origin{pathIDs: slices.Clone(pathIDs), pathless: true}
	if values := metadata.ValueFromIncomingContext(ctx, pathHeader); len(values) > 0 {
		err := json.Unmarshal([]byte(values[len(values)-1]), path)
		o.pathless = err != nil
		if err != nil {
			// What the SDK can't read it takes for no path, too.
			*path = grpcmetadata.Path{}
		}
	}
	// The SDK's elements follow pointers to segments without looking, here and at the member.
	if i := slices.Index(path.PathSegments, nil); i >= 0 {
		return ctx, nil, o, status.Errorf(codes.InvalidArgument, "segment %d of the path is null", i)
	}
	// What updatepath has to say about a bad token comes in several lines, and then the call is refused with the reason.
	ctx = log.WithLog(ctx, log.Empty())
	ctx = context.WithValue(ctx, originKey{}, o)
	return grpcmetadata.PathWithContext(ctx, path), path, o, nil
}

// end is the last thing that happens to a call: the path goes back to the client, or the log says why it was refused.
// What a member refuses is for that member to log.
func (p *Proxy) end(ctx context.Context, key shard.Key, path *grpcmetadata.Path, o *origin, err error) error {
	switch {
	case err == nil && !o.pathless:
		return sendPath(ctx, path)
	case err != nil && !o.admitted:
		p.options.Log.Warn("a call was refused", zap.Stringer("space", key.Space),
			zap.String("name", key.Name[:min(len(key.Name), maxLoggedName)]), zap.Error(err))
	}
	return err
}

// sendPath gives the path back to the client, cut after the segment of this hop.
func sendPath(ctx context.Context, path *grpcmetadata.Path) error {
	// The index is that of the client again.
	own := int(path.Index) + 1
	back := &grpcmetadata.Path{Index: path.Index, PathSegments: path.PathSegments[:min(own+1, len(path.PathSegments))]}
	text, err := json.Marshal(back)
	if err != nil {
		return fmt.Errorf("encode the path: %w", err)
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs(pathHeader, string(text))) // fails outside of a gRPC server only
	return nil
}

// routeIDs returns the path_ids to route a call by.
func routeIDs(ctx context.Context, pathIDs []string) []string {
	if o, ok := ctx.Value(originKey{}).(*origin); ok {
		return o.pathIDs
	}
	return pathIDs
}

// cut cuts path_ids after this hop's own.
func cut(ctx context.Context, pathIDs []string) []string {
	if own := int(grpcmetadata.PathFromContext(ctx).Index) + 1; own < len(pathIDs) {
		return pathIDs[:own]
	}
	return pathIDs
}

// withOwnPath puts the path into the metadata of a call to a member, cut after this hop's segment.
func withOwnPath(ctx context.Context) (context.Context, error) {
	path := *grpcmetadata.PathFromContext(ctx)
	path.PathSegments = path.PathSegments[:min(int(path.Index)+1, len(path.PathSegments))]
	text, err := json.Marshal(&path)
	if err != nil {
		return ctx, fmt.Errorf("encode the path: %w", err)
	}
	return metadata.AppendToOutgoingContext(ctx, pathHeader, string(text)), nil
}

// authorize asks whether the call may go on. Without a path in the metadata it is asked about an empty one: that is what
// the policies of a registry see of such a call.
func (p *Proxy) authorize(ctx context.Context, key shard.Key) error {
	o, _ := ctx.Value(originKey{}).(*origin)
	if authorize := p.options.Hop.Authorize; authorize != nil {
		path := grpcmetadata.PathFromContext(ctx)
		if o.pathless {
			path = new(grpcmetadata.Path)
		}
		err := authorize(ctx, Authorization{
			Key:     key,
			Path:    path,
			OwnedBy: func(id string) shard.Ownership { return p.table.OwnedBy(key, id) },
		})
		if err != nil {
			return err
		}
	}
	o.admitted = true
	return nil
}
