// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
	"github.com/networkservicemesh/registry-lb/internal/identity"
)

// side is a registry-k8s that is asked directly, or one behind registry-lb.
type side struct {
	*world
	t      *testing.T
	name   string
	caller party
	others party
	// server is the SPIFFE ID of whom the caller is connected to.
	server string
	conn   *grpc.ClientConn
}

func (w *world) side(t *testing.T, name, target, server string) *side {
	t.Helper()
	s := &side{world: w, t: t, name: name, caller: w.party(t, "nsmgr"), others: w.party(t, "others"), server: server}
	cc, err := grpc.NewClient(target, grpc.WithTransportCredentials(identity.ClientCredentials(s.caller, nil)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = cc.Close() })
	s.conn = cc
	return s
}

// claim is a token that says this, signed by by.
func claim(t *testing.T, by party, subject, audience string, lives time.Duration) string {
	t.Helper()
	svid, err := by.GetX509SVID()
	require.NoError(t, err)
	claims := jwt.RegisteredClaims{Subject: subject, Audience: jwt.ClaimStrings{audience}, ExpiresAt: jwt.NewNumericDate(time.Now().Add(lives))}
	tok, err := jwt.NewWithClaims(jwt.SigningMethodES256, claims).SignedString(svid.PrivateKey)
	require.NoError(t, err)
	return tok
}

// token is a good one of the caller.
func (s *side) token() string {
	s.t.Helper()
	return claim(s.t, s.caller, s.caller.ID(), s.server, expiry)
}

// headers are the metadata of a call.
func headers(tok, path string) metadata.MD {
	return metadata.Pairs("nsm-client-token", tok, "nsm-client-token-expires", time.Now().Add(expiry).Format(time.RFC3339Nano), "path", path)
}

func pathText(t *testing.T, index uint32, tokens ...string) string {
	t.Helper()
	path := &grpcmetadata.Path{Index: index}
	for _, tok := range tokens {
		path.PathSegments = append(path.PathSegments, &grpcmetadata.PathSegment{Token: tok})
	}
	text, err := json.Marshal(path)
	require.NoError(t, err)
	return string(text)
}

// without returns the metadata without a key.
func without(md metadata.MD, key string) metadata.MD {
	delete(md, key)
	return md
}

// offers are metadata of a call, good and bad.
func offers() []struct {
	name string
	md   func(s *side) metadata.MD
} {
	type row = struct {
		name string
		md   func(s *side) metadata.MD
	}
	// said is a call with this token and an empty path.
	said := func(name string, tok func(s *side) string) row {
		return row{name, func(s *side) metadata.MD { return headers(tok(s), "{}") }}
	}
	return []row{
		said("nothing is wrong", func(s *side) string { return s.token() }),
		{"somebody calls through the caller", func(s *side) metadata.MD {
			first := claim(s.t, s.others, s.others.ID(), s.caller.ID(), expiry)
			return headers(s.token(), pathText(s.t, 1, first, "to be replaced"))
		}},
		{"the path is longer than it was", func(s *side) metadata.MD {
			return headers(s.token(), pathText(s.t, 0, "to be replaced", "stale", "stale", "stale"))
		}},
		{"there is no path", func(s *side) metadata.MD { return without(headers(s.token(), ""), "path") }},
		{"the path is broken", func(s *side) metadata.MD { return headers(s.token(), `{"Index":`) }},
		{"the index is out of range", func(s *side) metadata.MD { return headers(s.token(), pathText(s.t, 9, "one")) }},
		{"10,000 segments follow", func(s *side) metadata.MD {
			return headers(s.token(), pathText(s.t, 0, make([]string, 10_000)...))
		}},
		{"the first segment is another's", func(s *side) metadata.MD {
			first := claim(s.t, s.others, s.others.ID(), s.others.ID(), expiry)
			return headers(s.token(), pathText(s.t, 1, first, "to be replaced"))
		}},
		{"there is nothing at all", func(*side) metadata.MD { return nil }},
		{"there is no token", func(*side) metadata.MD { return without(headers("", "{}"), "nsm-client-token") }},
		{"there are two tokens", func(s *side) metadata.MD {
			return metadata.Join(headers(s.token(), "{}"), metadata.Pairs("nsm-client-token", s.token()))
		}},
		said("the token has expired", func(s *side) string { return claim(s.t, s.caller, s.caller.ID(), s.server, -time.Minute) }),
		said("the token is for another audience", func(s *side) string {
			return claim(s.t, s.caller, s.caller.ID(), s.others.ID(), expiry)
		}),
		said("the token is another's", func(s *side) string { return claim(s.t, s.others, s.others.ID(), s.server, expiry) }),
		said("the token is in another's name", func(s *side) string { return claim(s.t, s.caller, s.others.ID(), s.server, expiry) }),
		said("the token is forged", func(s *side) string { return claim(s.t, s.others, s.caller.ID(), s.server, expiry) }),
		said("the token has no signature", func(s *side) string { return s.token()[:strings.LastIndex(s.token(), ".")+1] }),
		said("the token's algorithm is none", func(s *side) string {
			claims := jwt.RegisteredClaims{Subject: s.caller.ID(), Audience: jwt.ClaimStrings{s.server}, ExpiresAt: jwt.NewNumericDate(time.Now().Add(expiry))}
			tok, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims).SignedString(jwt.UnsafeAllowNoneSignatureType)
			require.NoError(s.t, err)
			return tok
		}),
	}
}

// verdict is what is to be the same on both sides.
type verdict struct {
	code codes.Code
	// changed says that what is stored is not what it was.
	changed bool
	// index and own are the index in the path that came back and who signed the segment there; next is whether the one
	// after it is that of whom the caller is connected to, and length the number of those up to it.
	index  uint32
	own    string
	next   bool
	length int
	// ids are the path_ids in the answer up to whom the caller is connected to, and last says whether the last one is the
	// replica.
	ids  string
	last bool
}

// storedAs is the version of what the store has under a name; empty if nothing.
func (s *side) storedAs(t *testing.T, name string) string {
	t.Helper()
	nses, err := s.store.Client().NetworkservicemeshV1().NetworkServiceEndpoints(member.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range nses.Items {
		if nses.Items[i].GetName() == name {
			return nses.Items[i].GetResourceVersion()
		}
	}
	nss, err := s.store.Client().NetworkservicemeshV1().NetworkServices(member.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range nss.Items {
		if nss.Items[i].GetName() == name {
			return nss.Items[i].GetResourceVersion()
		}
	}
	return ""
}

// item is an NSE or an NS.
func item(service, name, content string, pathIDs ...string) proto.Message {
	if service == "registry.NetworkServiceEndpointRegistry" {
		return &registry.NetworkServiceEndpoint{Name: name, Url: "tcp://" + content, PathIds: pathIDs}
	}
	return &registry.NetworkService{Name: name, Payload: content, PathIds: pathIDs}
}

// ask makes the call and says what came of it.
func (s *side) ask(t *testing.T, service, method string, req proto.Message, name string, md metadata.MD) verdict {
	t.Helper()
	resp := item(service, "", "")
	if method == "Unregister" {
		resp = new(emptypb.Empty)
	}
	before := s.storedAs(t, name)
	var header metadata.MD
	err := s.conn.Invoke(metadata.NewOutgoingContext(within(t), md), "/"+service+"/"+method, req, resp, grpc.Header(&header))
	v := verdict{code: status.Code(err), changed: s.storedAs(t, name) != before}
	if len(header["path"]) > 0 {
		path := new(grpcmetadata.Path)
		require.NoError(t, json.Unmarshal([]byte(header["path"][0]), path))
		v.index, v.own = path.Index, subjectOf(path.PathSegments[path.Index].Token)
		v.next = subjectOf(path.PathSegments[path.Index+1].Token) == s.server
		v.length = int(path.Index) + 2
	}
	if got, ok := resp.(interface{ GetPathIds() []string }); ok && err == nil {
		ids := got.GetPathIds()
		v.last = ids[len(ids)-1] == s.replicas[0].ID()
		if s.server != s.replicas[0].ID() {
			ids = ids[:len(ids)-1]
		}
		v.ids = strings.ReplaceAll(strings.Join(ids, " "), s.server, "the server")
	}
	return v
}

// pathIDsOf are the path_ids of who made this metadata: those of the segments before its own.
func pathIDsOf(md metadata.MD) []string {
	var ids []string
	var path grpcmetadata.Path
	if len(md["path"]) > 0 && json.Unmarshal([]byte(md["path"][0]), &path) == nil && int(path.Index) < len(path.PathSegments) {
		for _, segment := range path.PathSegments[:path.Index] {
			ids = append(ids, subjectOf(segment.Token))
		}
	}
	return ids
}

func subjectOf(tok string) string {
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(tok, &claims); err != nil {
		return ""
	}
	return claims.Subject
}

// TestIdentityVerdictsAreThoseOfTheRegistry makes the same calls at a registry-k8s with its default policies and at one
// behind registry-lb: the same code, the same change of the store, and the same path as far as the caller can tell.
func TestIdentityVerdictsAreThoseOfTheRegistry(t *testing.T) {
	direct, behind := newWorld(t, 1), newWorld(t, 1)
	lb := behind.startBalancer(t)
	lb.live(t, 1)
	sides := []*side{
		direct.side(t, "registry-k8s", direct.replicas[0].addr, direct.replicas[0].ID()),
		behind.side(t, "registry-lb", lb.target, "spiffe://k8s.nsm/ns/"+member.Namespace+"/pod/registry-lb"),
	}
	seen := make(map[codes.Code]int)
	for _, service := range []string{"registry.NetworkServiceEndpointRegistry", "registry.NetworkServiceRegistry"} {
		for i, row := range offers() {
			name := "item-" + string(rune('a'+i))
			var verdicts [2][]verdict
			for which, s := range sides {
				// New, while it is there, and when it is to go.
				for n, method := range []string{"Register", "Register", "Unregister"} {
					if n == 1 && s.storedAs(t, name) == "" {
						// What was refused before has to be there now.
						good := s.ask(t, service, "Register", item(service, name, "before:1"), name, headers(s.token(), "{}"))
						require.Equal(t, codes.OK, good.code, "%s: the call to compare with failed", s.name)
					}
					md := row.md(s)
					after := item(service, name, fmt.Sprintf("after:%d", n+1), pathIDsOf(md)...)
					verdicts[which] = append(verdicts[which], s.ask(t, service, method, after, name, md))
				}
			}
			require.Equal(t, verdicts[0], verdicts[1], "%s, %s: what the registry says, and what registry-lb says", service, row.name)
			for _, v := range verdicts[0] {
				seen[v.code]++
			}
			// Nothing is left for the next row.
			for _, s := range sides {
				s.ask(t, service, "Unregister", item(service, name, ""), name, headers(s.token(), "{}"))
				require.Empty(t, s.storedAs(t, name))
			}
		}
	}
	require.GreaterOrEqual(t, seen[codes.OK], 10, "calls that were taken")
	require.GreaterOrEqual(t, seen[codes.PermissionDenied], 20, "calls that were refused")
}
