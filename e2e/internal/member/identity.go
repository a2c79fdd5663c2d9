// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

// tokenLifetime is longer than any test, so that one token serves for all.
const tokenLifetime = time.Hour

// ID returns the SPIFFE ID that NSM's SPIRE template gives to the pod called name.
func ID(name string) string {
	return "spiffe://k8s.nsm/ns/" + Namespace + "/pod/" + name
}

// Identity is a token, as NSM's parties send and store it.
type Identity struct {
	token   string
	expires time.Time
}

// Token returns a token of who has the SPIFFE ID id. Nobody checks its signature.
func Token(id string) (Identity, error) {
	expires := time.Now().Add(tokenLifetime)
	claims := jwt.RegisteredClaims{Subject: id, ExpiresAt: jwt.NewNumericDate(expires)}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("test"))
	if err != nil {
		return Identity{}, fmt.Errorf("sign a token of %s: %w", id, err)
	}
	return Identity{token: token, expires: expires}, nil
}

// Generate is the generator of tokens that NSM's chains are given.
func (i Identity) Generate(credentials.AuthInfo) (token string, expires time.Time, err error) {
	return i.token, i.expires, nil
}

// Metadata is what an NSM client with this identity sends along with each call.
func (i Identity) Metadata() metadata.MD {
	return metadata.Pairs("nsm-client-token", i.token, "nsm-client-token-expires", i.expires.Format(time.RFC3339Nano))
}
