// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/golang-jwt/jwt/v4"
	"github.com/networkservicemesh/sdk/pkg/registry/common/authorize"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// Side says where in a chain the check stands.
type Side uint8

const (
	// Server checks a request as it comes in: policies see the path up to and including the own segment.
	Server Side = iota
	// Client checks a response as it comes back: policies see the whole path.
	Client
)

// Input is what a check is about. It is read only, and not kept after Check returns.
type Input struct {
	// Side is where the check stands; the zero value is Server.
	Side Side
	// Name is the name of the NSE or NS.
	Name string
	// Path is the path of the call, after updatepath: on the server side the segment at Index is the own one.
	// Nil means no path.
	Path *grpcmetadata.Path
	// PathIDs are the path_ids that Name was last registered with, the owner's SPIFFE ID first. Nil means that
	// Name is not known. A list that is empty but not nil belongs to nobody, and NSM refuses everyone.
	PathIDs []string
	// Certificate is the leaf that the TLS peer presented, as crypto/tls parsed it (see opa.ParseX509Cert).
	// Nil means a peer without one.
	Certificate *x509.Certificate
}

// call is an Input as the policies see it, with what was worked out about it on the way.
type call struct {
	name     string
	id       string // SPIFFE ID of the first token, "" if it has none
	segments []*grpcmetadata.PathSegment
	index    uint32
	pathIDs  []string
	cert     *x509.Certificate
	tokens   []token // of segments; nil until a rule asks
}

// newCall prepares in as the authorize elements do (nse_server.go and nse_client.go there).
//
// A path that cannot be is refused here: NSM's updatepath refuses an Index that is too large before authorize
// would panic on it, and a first segment of null makes both panic.
func newCall(in *Input) (*call, error) {
	c := &call{name: in.Name, pathIDs: in.PathIDs, cert: in.Certificate}
	if in.Path != nil {
		c.segments, c.index = in.Path.PathSegments, in.Path.Index
	}
	if len(c.segments) == 0 {
		if in.Side == Server {
			c.segments, c.index = []*grpcmetadata.PathSegment{}, 0
		}
		return c, nil
	}
	if c.segments[0] == nil {
		return nil, fmt.Errorf("the first of the %d segments of the path is null", len(c.segments))
	}
	if in.Side == Server {
		end := uint64(c.index) + 1
		if end > uint64(len(c.segments)) {
			// The text is updatepath's.
			return nil, fmt.Errorf("Path.Index+1==%d should be less or equal len(Path.PathSegments)==%d",
				end, len(c.segments))
		}
		c.segments = c.segments[:end]
	}
	c.id = subject(c.segments[0].Token)
	return c, nil
}

// Subject is the SPIFFE ID of who began the path, as the authorize elements read it from the first token, unverified;
// empty if there is none. Whether the token may be believed is what Check says.
func Subject(path *grpcmetadata.Path) string {
	if path == nil || len(path.PathSegments) == 0 || path.PathSegments[0] == nil {
		return ""
	}
	return subject(path.PathSegments[0].Token)
}

// subject is the SPIFFE ID in a token's sub, unverified, or "". It makes the same calls as getSpiffeIDFromPath
// in the authorize package, because what they accept is not what OPA accepts.
func subject(raw string) string {
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(raw, &claims); err != nil {
		return ""
	}
	sub, ok := claims["sub"].(string)
	if !ok {
		return ""
	}
	id, err := spiffeid.FromString(sub)
	if err != nil {
		return ""
	}
	return id.String()
}

// decoded gives the tokens of the path, each decoded once for all rules.
func (c *call) decoded() []token {
	if c.tokens == nil {
		c.tokens = make([]token, len(c.segments))
		for i, segment := range c.segments {
			c.tokens[i] = decode(segment)
		}
	}
	return c.tokens
}

// opaInput is what the authorize element would give OPA if its map had only the entry of this name.
func (c *call) opaInput() authorize.RegistryOpaInput {
	entries := map[string][]string{}
	if c.pathIDs != nil {
		entries[c.name] = c.pathIDs
	}
	return authorize.RegistryOpaInput{
		ResourceID:         c.id,
		ResourceName:       c.name,
		ResourcePathIDsMap: entries,
		PathSegments:       c.segments,
		Index:              c.index,
	}
}

// opaContext carries the peer's certificate to where the SDK's policies look for it. A peer that ctx already
// has is hidden, so that Input alone counts.
func (c *call) opaContext(ctx context.Context) context.Context {
	p := &peer.Peer{}
	if c.cert != nil {
		p.AuthInfo = credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.cert}}}
	}
	return peer.NewContext(ctx, p)
}
