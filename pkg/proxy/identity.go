// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"encoding/json"

	"github.com/golang-jwt/jwt/v4"
	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"
)

// pathHeader is the metadata in which NSM's registries pass on the path of a call (SDK element grpcmetadata).
const pathHeader = "path"

// introduction is the name of the NSE that no member has and that members are asked to unregister when they are to say
// who they are. They answer with the path of the call, their own segment in it.
const introduction = "registry-lb-introduction"

// introduce asks m for its SPIFFE ID where TLS does not show it. Without a client's path in the metadata a registry
// does not send its own back, so an empty one goes along. It is false if m could not be asked.
func (p *Proxy) introduce(ctx context.Context, m *member) bool {
	ctx, cancel := context.WithTimeout(ctx, p.options.ProbeTimeout)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(markOwn(ctx, "introduction"), pathHeader, "{}")
	nse := &registry.NetworkServiceEndpoint{Name: introduction}
	c := m.calls.hold()
	defer c.release()
	a := invoke(ctx, c.list[0], "/"+nseKind().service+"/"+methodUnregister, nse, new(emptypb.Empty))
	if a.lost() || ctx.Err() != nil {
		return false
	}
	if id := idFromPath(a.header); id != "" {
		p.setID(m, id)
	}
	return true
}

// idFromPath returns the SPIFFE ID of the member that answered with this header, empty if it does not say. The token is
// not verified: this is for connections without TLS, on which nothing is.
func idFromPath(header metadata.MD) string {
	values := header[pathHeader]
	if len(values) == 0 {
		return ""
	}
	var path grpcmetadata.Path
	if err := json.Unmarshal([]byte(values[len(values)-1]), &path); err != nil {
		return ""
	}
	// The path comes back with the index of who called; the next segment is that of who answered.
	own := int(path.Index) + 1
	if own >= len(path.PathSegments) || path.PathSegments[own] == nil {
		return ""
	}
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(path.PathSegments[own].Token, &claims); err != nil {
		return ""
	}
	return claims.Subject
}

// tlsOf returns what TLS knows about a member. Credentials may wrap it in an AuthInfo of their own that has a method TLS.
func tlsOf(info credentials.AuthInfo) (tls credentials.TLSInfo, ok bool) {
	if wrapped, ok := info.(interface{ TLS() credentials.TLSInfo }); ok {
		return wrapped.TLS(), true
	}
	tls, ok = info.(credentials.TLSInfo)
	return tls, ok
}

// idFromTLS returns the SPIFFE ID in the certificate of a member, empty without TLS.
func idFromTLS(info credentials.AuthInfo) string {
	if tls, ok := tlsOf(info); ok && tls.SPIFFEID != nil {
		return tls.SPIFFEID.String()
	}
	return ""
}

// identify learns the SPIFFE ID of m, which has just answered a probe on a connection with this AuthInfo. Without TLS
// it is asked once; if it does not say then, its answers to Register do.
func (p *Proxy) identify(m *member, info credentials.AuthInfo) {
	if m.introduced {
		return
	}
	if id := idFromTLS(info); id != "" {
		p.setID(m, id)
		m.introduced = true
	} else {
		m.introduced = p.introduce(m.life, m)
	}
	if m.introduced {
		close(m.identified)
	}
}

// learnIdentity learns the SPIFFE ID of the member that gave an answer, if it is not known yet.
func (p *Proxy) learnIdentity(a answer) {
	if a.from.id.Load() != nil {
		return
	}
	if id := idFromPath(a.header); id != "" {
		p.setID(a.from, id)
	}
}

// setID notes that m has this SPIFFE ID. What is listed now can be understood better than before.
func (p *Proxy) setID(m *member, id string) {
	if before := m.id.Swap(&id); before != nil && *before == id {
		return
	}
	p.table.SetID(m.Name, id)
	p.reportDuplicates()
	if p.options.Store == SharedStore {
		p.directory.listAgain()
	}
}

// reportDuplicates says so when two members show one SPIFFE ID, as with a template that makes it of the service account.
func (p *Proxy) reportDuplicates() {
	for id, names := range p.table.DuplicateIDs() {
		p.options.Log.Warn("several members have one SPIFFE ID: path_ids can't tell them apart, so keys are routed by own traffic and the ring",
			zap.String("spiffe_id", id), zap.Strings("members", names))
	}
}
