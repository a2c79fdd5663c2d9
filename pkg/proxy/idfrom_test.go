// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/golang-jwt/jwt/v4"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

func TestIDFromPath(t *testing.T) {
	t.Parallel()
	const id = "spiffe://test/registry"
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{Subject: id}).SignedString([]byte("secret"))
	require.NoError(t, err)
	path := func(index uint32, tokens ...string) string {
		p := grpcmetadata.Path{Index: index}
		for _, token := range tokens {
			p.PathSegments = append(p.PathSegments, &grpcmetadata.PathSegment{Token: token})
		}
		text, err := json.Marshal(p)
		require.NoError(t, err)
		return string(text)
	}
	for _, row := range []struct {
		name   string
		header metadata.MD
		want   string
	}{
		{"no header", nil, ""},
		{"no path", metadata.Pairs("other", path(0, "", signed)), ""},
		{"the segment after the caller's", metadata.Pairs("path", path(0, "", signed)), id},
		{"a path with hops before", metadata.Pairs("path", path(1, "", "", signed)), id},
		{"what is behind does not count", metadata.Pairs("path", path(0, "", signed, "")), id},
		{"of several the last", metadata.Pairs("path", "{}", "path", path(0, "", signed)), id},
		{"no segment of its own", metadata.Pairs("path", path(0, signed)), ""},
		{"an index that is out of range", metadata.Pairs("path", path(1<<32-1, "", signed)), ""},
		{"an empty path", metadata.Pairs("path", "{}"), ""},
		{"a token that is none", metadata.Pairs("path", path(0, "", "token")), ""},
		{"something else than JSON", metadata.Pairs("path", "path"), ""},
		{"a segment that is null", metadata.Pairs("path", `{"Index":0,"PathSegments":[null,null]}`), ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, idFromPath(row.header))
		})
	}
}

func TestIDFromTLS(t *testing.T) {
	t.Parallel()
	id := &url.URL{Scheme: "spiffe", Host: "test", Path: "/registry"}
	require.Equal(t, "spiffe://test/registry", idFromTLS(credentials.TLSInfo{SPIFFEID: id}))
	require.Empty(t, idFromTLS(credentials.TLSInfo{}))
	require.Empty(t, idFromTLS(nil))
}
