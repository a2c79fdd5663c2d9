// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

// intruder makes what a caller sends along, good or bad, for a server.
type intruder struct {
	tb     testing.TB
	caller party
	server party
	others party
}

// token is a good one.
func (i intruder) token() string {
	tok, _ := i.caller.tokenFor(i.tb, i.server)
	return tok
}

// claim is a token of the caller that says this.
func (i intruder) claim(subject, audience string, expires time.Time) string {
	claims := jwt.RegisteredClaims{Subject: subject, Audience: jwt.ClaimStrings{audience}, ExpiresAt: jwt.NewNumericDate(expires)}
	tok, err := jwt.NewWithClaims(jwt.SigningMethodES256, claims).SignedString(i.caller.svid(i.tb).PrivateKey)
	require.NoError(i.tb, err)
	return tok
}

func soon() time.Time { return time.Now().Add(10 * time.Minute) }

// headers is the metadata of a call with a token and a path.
func headers(tok, path string) metadata.MD {
	return metadata.Pairs(clientToken, tok, clientTokenExpires, soon().Format(time.RFC3339Nano), pathKey, path)
}

func (i intruder) path(index uint32, tokens ...string) string {
	path := &grpcmetadata.Path{Index: index}
	for _, tok := range tokens {
		path.PathSegments = append(path.PathSegments, &grpcmetadata.PathSegment{Token: tok})
	}
	text, err := json.Marshal(path)
	require.NoError(i.tb, err)
	return string(text)
}

// refusal is a call that a registry does not take as it should be, with the code that it answers today.
type refusal struct {
	name string
	md   func(i intruder) metadata.MD
	code codes.Code
	// costly ones keep a registry busy for a second. They are tried for one method of NSEs and the other of NSs.
	costly bool
}

func refusals() []refusal {
	return []refusal{
		{"nothing is wrong", func(i intruder) metadata.MD { return headers(i.token(), "{}") }, codes.OK, false},
		{"there is a path of its own", func(i intruder) metadata.MD { return headers(i.token(), i.path(0, "to be replaced")) }, codes.OK, false},
		{"there is no path", func(i intruder) metadata.MD {
			md := headers(i.token(), "{}")
			delete(md, pathKey)
			return md
		}, codes.PermissionDenied, false},
		{"the path is broken", func(i intruder) metadata.MD { return headers(i.token(), `{"Index":0,"PathSegments":[{"token`) }, codes.PermissionDenied, false},
		{"the path is a list", func(i intruder) metadata.MD { return headers(i.token(), "[]") }, codes.PermissionDenied, false},
		{"the path is empty", func(i intruder) metadata.MD { return headers(i.token(), "") }, codes.PermissionDenied, false},
		{"the path has a negative index", func(i intruder) metadata.MD { return headers(i.token(), `{"Index":-1}`) }, codes.PermissionDenied, false},
		{"the path is JSON's null", func(i intruder) metadata.MD { return headers(i.token(), "null") }, codes.OK, false},
		{"the last of two paths is broken", func(i intruder) metadata.MD {
			return metadata.Join(headers(i.token(), "{}"), metadata.Pairs(pathKey, "{"))
		}, codes.PermissionDenied, false},
		{"the index is out of range", func(i intruder) metadata.MD { return headers(i.token(), i.path(7, i.token())) }, codes.Unknown, false},
		{"the index is the largest", func(i intruder) metadata.MD { return headers(i.token(), i.path(1<<32-1, i.token())) }, codes.Unknown, false},
		{"the index is out of range of no segments", func(i intruder) metadata.MD { return headers(i.token(), i.path(7)) }, codes.OK, false},
		{"10,000 segments follow", func(i intruder) metadata.MD {
			return headers(i.token(), i.path(0, make([]string, 10_000)...))
		}, codes.OK, false},
		{"10,000 segments come before", func(i intruder) metadata.MD {
			return headers(i.token(), i.path(9_999, make([]string, 10_000)...))
		}, codes.PermissionDenied, true},
		{"there is no token", func(intruder) metadata.MD {
			md := headers("", "{}")
			delete(md, clientToken)
			return md
		}, codes.PermissionDenied, false},
		{"the token is not said to expire", func(i intruder) metadata.MD {
			md := headers(i.token(), "{}")
			delete(md, clientTokenExpires)
			return md
		}, codes.PermissionDenied, false},
		{"the token is said to expire some day", func(i intruder) metadata.MD {
			md := headers(i.token(), "{}")
			md.Set(clientTokenExpires, "some day")
			return md
		}, codes.PermissionDenied, false},
		{"there is nothing at all", func(intruder) metadata.MD { return nil }, codes.PermissionDenied, false},
		{"there are two tokens", func(i intruder) metadata.MD {
			return metadata.Join(headers(i.token(), "{}"), metadata.Pairs(clientToken, i.token()))
		}, codes.PermissionDenied, false},
		{"the token is empty", func(intruder) metadata.MD { return headers("", "{}") }, codes.PermissionDenied, false},
		{"the token is no token", func(intruder) metadata.MD { return headers("a.b.c", "{}") }, codes.PermissionDenied, false},
		{"the token has expired", func(i intruder) metadata.MD {
			return headers(i.claim(i.caller.ID(), i.server.ID(), time.Now().Add(-time.Minute)), "{}")
		}, codes.PermissionDenied, false},
		{"the token is for another audience", func(i intruder) metadata.MD {
			return headers(i.claim(i.caller.ID(), i.others.ID(), soon()), "{}")
		}, codes.PermissionDenied, false},
		{"the token is another's", func(i intruder) metadata.MD {
			tok, _ := i.others.tokenFor(i.tb, i.server)
			return headers(tok, "{}")
		}, codes.PermissionDenied, false},
		{"the token is forged", func(i intruder) metadata.MD {
			head, sig, _ := strings.Cut(i.token(), ".")
			_, sig, _ = strings.Cut(sig, ".")
			claims, err := json.Marshal(jwt.RegisteredClaims{Subject: i.others.ID(), Audience: jwt.ClaimStrings{i.server.ID()}, ExpiresAt: jwt.NewNumericDate(soon())})
			require.NoError(i.tb, err)
			return headers(head+"."+base64.RawURLEncoding.EncodeToString(claims)+"."+sig, "{}")
		}, codes.PermissionDenied, false},
		{"the token has no signature", func(i intruder) metadata.MD {
			return headers(i.token()[:strings.LastIndex(i.token(), ".")+1], "{}")
		}, codes.PermissionDenied, false},
		{"the token's algorithm is none", func(i intruder) metadata.MD {
			claims := jwt.RegisteredClaims{Subject: i.caller.ID(), Audience: jwt.ClaimStrings{i.server.ID()}, ExpiresAt: jwt.NewNumericDate(soon())}
			tok, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims).SignedString(jwt.UnsafeAllowNoneSignatureType)
			require.NoError(i.tb, err)
			return headers(tok, "{}")
		}, codes.PermissionDenied, false},
		{"the token's algorithm is HS256 with the public key", func(i intruder) metadata.MD {
			claims := jwt.RegisteredClaims{Subject: i.caller.ID(), Audience: jwt.ClaimStrings{i.server.ID()}, ExpiresAt: jwt.NewNumericDate(soon())}
			tok, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(i.caller.svid(i.tb).Certificates[0].RawSubjectPublicKeyInfo)
			require.NoError(i.tb, err)
			return headers(tok, "{}")
		}, codes.PermissionDenied, false},
		{"the first segment is another's", func(i intruder) metadata.MD {
			tok, _ := i.others.tokenFor(i.tb, i.server)
			return headers(i.token(), i.path(1, tok, "to be replaced"))
		}, codes.PermissionDenied, false},
		{"the first segment has expired", func(i intruder) metadata.MD {
			return headers(i.token(), i.path(1, i.claim(i.others.ID(), i.caller.ID(), time.Now().Add(-time.Minute)), "to be replaced"))
		}, codes.PermissionDenied, false},
	}
}

// Each call goes to a registry itself, and to one behind registry-lb. Both have to answer alike.
func TestHopRefusesAsARegistryDoes(t *testing.T) {
	t.Parallel()
	for _, f := range []flavour{nseFlavour(), nsFlavour()} {
		for _, method := range []string{"Register", "Unregister"} {
			t.Run(f.name+"/"+method, func(t *testing.T) {
				t.Parallel()
				world := newMesh(t)
				direct := world.member(t, "registry-0", serverPolicies()...)
				behind := world.member(t, "registry-1", serverPolicies()...)
				front := world.front(t, proxy.Options{}, serverPolicies(), behind)
				front.identified(t)
				caller := world.client(t, "nsmgr")
				asked := []offered{
					{"registry", direct, intruder{t, caller.party, direct.party, world.party(t, "others")}, caller.connect(t, direct.Addrs[0])},
					{"registry-lb", behind, intruder{t, caller.party, front.party, world.party(t, "others")}, caller.connect(t, front.addr)},
				}
				for _, row := range refusals() {
					if row.costly && (f.name == "NSE") != (method == "Register") {
						continue
					}
					t.Run(row.name, func(t *testing.T) { //nolint:paralleltest // the log belongs to one call at a time
						for _, o := range asked {
							before := o.prepare(t, f)
							front.logs.TakeAll()
							calls := behind.count()
							md := o.offer(t, f, method, row, before)
							if row.code != codes.OK && o.name == "registry-lb" {
								require.Equal(t, calls, behind.count(), "the member was sent the call")
								requireOneLine(t, front, md)
							}
						}
					})
				}
			})
		}
	}
}

// offered is who is offered a call, and by whom.
type offered struct {
	name   string
	member *hopMember
	by     intruder
	conn   *grpc.ClientConn
}

// prepare returns what is there already, and has to stay as it is if the call is refused. It is there still, unless the
// row before has unregistered it.
func (o offered) prepare(t *testing.T, f flavour) proto.Message {
	t.Helper()
	if stored := o.member.stored(t, f); stored != nil {
		return stored
	}
	good := headers(o.by.token(), "{}")
	require.NoError(t, o.conn.Invoke(metadata.NewOutgoingContext(within(t), good), f.method("Register"), f.item(hopItem), f.emptyItem()))
	stored := o.member.stored(t, f)
	require.NotNil(t, stored)
	return stored
}

// offer makes the call of a row and checks what comes of it. It returns the metadata of the call.
func (o offered) offer(t *testing.T, f flavour, method string, row refusal, before proto.Message) metadata.MD {
	t.Helper()
	md, resp := row.md(o.by), f.emptyItem()
	if method == "Unregister" {
		resp = new(emptypb.Empty)
	}
	err := o.conn.Invoke(metadata.NewOutgoingContext(within(t), md), f.method(method), f.itemWith(hopItem, row.name), resp)
	require.Equal(t, row.code, status.Code(err), "%s: %v", o.name, err)
	after := o.member.stored(t, f)
	if row.code == codes.OK {
		require.False(t, proto.Equal(before, after), "nothing was changed")
	} else {
		require.True(t, proto.Equal(before, after), "it was changed")
	}
	return md
}

// requireOneLine checks that the log says once why a call was refused, and nowhere what its tokens are.
func requireOneLine(tb testing.TB, front *hopFront, md metadata.MD) {
	tb.Helper()
	lines := front.logs.TakeAll()
	refused := 0
	for _, line := range lines {
		if line.Message == "a call was refused" {
			refused++
			require.NotEmpty(tb, line.ContextMap()["error"])
		}
	}
	require.Equal(tb, 1, refused)
	for _, line := range lines {
		text, err := json.Marshal(line.ContextMap())
		require.NoError(tb, err)
		for _, tok := range slices.Concat(md[clientToken], md[pathKey]) {
			for part := range strings.SplitSeq(tok, ".") {
				if len(part) > 8 {
					require.NotContains(tb, line.Message+string(text), part)
				}
			}
		}
	}
}

// The SDK's elements would end the process: here, and at the member that it is passed on to.
func TestHopRefusesNullSegments(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		world := newMesh(t)
		member := world.member(t, "registry-0")
		front := world.front(t, proxy.Options{}, nil, member)
		c := world.client(t, "nsmgr")
		cc := c.dial(t, front.addr)
		for _, path := range []string{
			`{"PathSegments":[null]}`,
			`{"PathSegments":[{"token":"a"},null]}`,
			`{"Index":1,"PathSegments":[null,{"token":"a"}]}`,
			`{"Index":1,"PathSegments":[{"token":"a"},{"token":"b"},null]}`,
		} {
			ctx := metadata.AppendToOutgoingContext(within(t), pathKey, path)
			_, err := f.register(ctx, cc, f.item("item"))
			requireCode(t, codes.InvalidArgument, err)
			require.ErrorContains(t, err, "of the path is null")
			_, err = f.unregister(ctx, cc, f.item("item"))
			requireCode(t, codes.InvalidArgument, err)
		}
		require.Zero(t, member.count())
		require.Equal(t, 8, front.logs.FilterMessage("a call was refused").Len())
		_, err := c.register(t, cc, f, f.item("item"))
		require.NoError(t, err)
	})
}

// The owner of a name is who registered it first, whoever the member is that is asked.
func TestHopKeepsTheOwner(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		world := newMesh(t)
		member := world.member(t, "registry-0") // which itself checks nothing
		front := world.front(t, proxy.Options{}, serverPolicies(), member)
		owner, impostor := world.client(t, "owner"), world.client(t, "impostor")
		conns := map[*hopClient]*grpc.ClientConn{owner: owner.dial(t, front.addr), impostor: impostor.dial(t, front.addr)}
		item, err := owner.register(t, conns[owner], f, f.item("item"))
		require.NoError(t, err)

		_, err = impostor.register(t, conns[impostor], f, proto.CloneOf(item))
		requireCode(t, codes.PermissionDenied, err)
		requireCode(t, codes.PermissionDenied, impostor.unregister(t, conns[impostor], f, proto.CloneOf(item)))
		require.NotNil(t, member.stored(t, f))

		item, err = owner.register(t, conns[owner], f, item)
		require.NoError(t, err)
		require.NoError(t, owner.unregister(t, conns[owner], f, item))
		// What is no more belongs to nobody.
		item, err = impostor.register(t, conns[impostor], f, f.item("item"))
		require.NoError(t, err)
		require.NoError(t, impostor.unregister(t, conns[impostor], f, item))
	})
}

// Policies of one's own see what they see in a registry, and none at all let everything pass, as there.
func TestHopChecksByPolicyFilesOfOnesOwn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "own.rego")
	require.NoError(t, os.WriteFile(file, []byte(`package own

default valid = false

valid {
	startswith(input.resource_name, "good")
	count(input.path_segments) == 2
	input.index == 1
}
`), 0o600))
	for _, row := range []struct {
		name     string
		policies []string
		names    map[string]codes.Code
	}{
		{"a file", []string{file}, map[string]codes.Code{"good": codes.OK, "bad": codes.PermissionDenied}},
		{"a mask", []string{filepath.Dir(file) + "/.*.rego"}, map[string]codes.Code{"good": codes.OK, "bad": codes.PermissionDenied}},
		{"none", nil, map[string]codes.Code{"good": codes.OK, "bad": codes.OK}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			eachFlavour(t, func(t *testing.T, f flavour) {
				t.Helper()
				world := newMesh(t)
				direct := world.member(t, "registry-0", row.policies...)
				front := world.front(t, proxy.Options{}, row.policies, world.member(t, "registry-1"))
				c := world.client(t, "nsmgr")
				for _, addr := range []string{direct.Addrs[0], front.addr} {
					cc := c.dial(t, addr)
					for name, code := range row.names {
						c.path = new(grpcmetadata.Path)
						item, err := c.register(t, cc, f, f.item(name))
						requireCode(t, code, err)
						if err == nil {
							require.NoError(t, c.unregister(t, cc, f, item))
						}
					}
				}
			})
		})
	}
}
