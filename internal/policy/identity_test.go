// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"math/big"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// identity is a workload with its key and certificate.
type identity struct {
	id   string
	key  crypto.Signer
	cert *x509.Certificate
}

// newIdentity makes a self-signed certificate; who signed it is the TLS stack's business, not that of policies.
func newIdentity(tb testing.TB, id string, key crypto.Signer) identity {
	tb.Helper()
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	if id != "" {
		uri, err := url.Parse(id)
		require.NoError(tb, err)
		template.URIs = []*url.URL{uri}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(tb, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(tb, err)
	return identity{id: id, key: key, cert: cert}
}

// world is who takes part: a client, nsmgr and registry-lb, and outsiders with keys of other kinds.
type world struct {
	chain  []identity
	other  identity // a stranger with a key of the right kind
	p384   identity // the client's SPIFFE ID on another curve
	rsa    identity
	noURI  identity
	parsed []*x509.Certificate // the certificates that a peer may present; the first is none
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	ec := func(curve elliptic.Curve) crypto.Signer {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		require.NoError(tb, err)
		return key
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(tb, err)
	w := &world{
		other: newIdentity(tb, "spiffe://nsm.test/ns/nsm/pod/stranger", ec(elliptic.P256())),
		p384:  newIdentity(tb, "spiffe://nsm.test/ns/nsm/pod/client-0", ec(elliptic.P384())),
		rsa:   newIdentity(tb, "spiffe://nsm.test/ns/nsm/pod/rsa", rsaKey),
		noURI: newIdentity(tb, "", ec(elliptic.P256())),
	}
	for _, name := range []string{"client-0", "nsmgr-0", "registry-lb-0", "registry-0"} {
		w.chain = append(w.chain, newIdentity(tb, "spiffe://nsm.test/ns/nsm/pod/"+name, ec(elliptic.P256())))
	}
	w.parsed = []*x509.Certificate{nil}
	for _, who := range append([]identity{w.other, w.p384, w.rsa, w.noURI}, w.chain...) {
		w.parsed = append(w.parsed, who.cert)
	}
	// Nothing that a TLS stack would hand over, but nothing to panic on.
	w.parsed = append(w.parsed, &x509.Certificate{})
	return w
}

// at is the identity at a place of the path; long paths go round.
func (w *world) at(i int) identity { return w.chain[i%len(w.chain)] }

// sign makes a token of any header and payload text, with the kind of signature that the key makes.
func sign(tb testing.TB, header, payload string, key crypto.Signer) string {
	tb.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	body := encode([]byte(header)) + "." + encode([]byte(payload))
	digest := sha256.Sum256([]byte(body))
	var signature []byte
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
		require.NoError(tb, err)
		size := (key.Curve.Params().BitSize + 7) / 8
		signature = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
	case *rsa.PrivateKey:
		var err error
		signature, err = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
		require.NoError(tb, err)
	}
	return body + "." + encode(signature)
}
