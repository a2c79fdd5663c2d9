// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/networkservicemesh/sdk/pkg/tools/spiffejwt"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"google.golang.org/grpc/credentials"
)

// tokenLifetime is how long a token is good for: what NSM's commands are given by default.
const tokenLifetime = 10 * time.Minute

// newTokens returns a generator of tokens for the pod called name, with the subject that NSM's SPIRE templates give it.
// It is the SDK's own generator; only the key comes from here and not from SPIRE.
func newTokens(name string) (token.GeneratorFunc, error) {
	id, err := spiffeid.FromString("spiffe://demo.registry-lb/ns/nsm-system/pod/" + name)
	if err != nil {
		return nil, fmt.Errorf("identity of %s: %w", name, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of %s: %w", name, err)
	}
	// The generator looks at the end of the certificate only; nobody else sees it, as there is no TLS here.
	certificate := &x509.Certificate{NotAfter: time.Now().Add(time.Hour)}
	svid := &x509svid.SVID{ID: id, PrivateKey: key, Certificates: []*x509.Certificate{certificate}}
	return spiffejwt.TokenGeneratorFunc(svid, tokenLifetime), nil
}

// plaintextCredentials sends tokens over connections without TLS, which are all on loopback here.
type plaintextCredentials struct {
	credentials.PerRPCCredentials
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (plaintextCredentials) RequireTransportSecurity() bool { return false }
