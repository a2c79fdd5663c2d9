// SPDX-License-Identifier: Apache-2.0

// Package workloadtest is the SPIFFE Workload API for tests: authorities that issue real X.509-SVIDs, with lifetimes
// as short as a test needs them, and a server that hands them out over a unix socket as a SPIRE agent does.
package workloadtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

// authorityLifetime is longer than any test.
const authorityLifetime = 24 * time.Hour

// Types of blocks, as RFC 7468 has them.
const (
	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY"
)

// Authority is the certificate authority of a trust domain. It is safe for concurrent use.
type Authority struct {
	domain spiffeid.TrustDomain
	cert   *x509.Certificate
	key    crypto.Signer
	serial atomic.Int64
}

// NewAuthority returns an authority for the trust domain with this name. Two of one name do not trust each other.
func NewAuthority(name string) (*Authority, error) {
	domain, err := spiffeid.TrustDomainFromString(name)
	if err != nil {
		return nil, fmt.Errorf("trust domain of an authority: %w", err)
	}
	a := &Authority{domain: domain}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of %s: %w", name, err)
	}
	a.key = key
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(a.serial.Add(1)),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-authorityLifetime),
		NotAfter:              now.Add(authorityLifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
		URIs:                  []*url.URL{domain.ID().URL()},
	}
	if a.cert, err = sign(template, template, key.Public(), key); err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	return a, nil
}

// Domain returns the trust domain.
func (a *Authority) Domain() spiffeid.TrustDomain { return a.domain }

// Bundle returns what others need to trust SVIDs of the authority.
func (a *Authority) Bundle() *x509bundle.Bundle {
	return x509bundle.FromX509Authorities(a.domain, []*x509.Certificate{a.cert})
}

// PEM returns certificate and key, for [ParseAuthority].
func (a *Authority) PEM() ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, fmt.Errorf("encode the key of %s: %w", a.domain, err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: a.cert.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: key})...), nil
}

// ParseAuthority returns the authority that was encoded with [Authority.PEM], for another process of the same trust
// domain. Serial numbers are not unique among the two.
func ParseAuthority(text []byte) (*Authority, error) {
	a := new(Authority)
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case pemCertificate:
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("read the certificate of an authority: %w", err)
			}
			a.cert = cert
		case pemKey:
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("read the key of an authority: %w", err)
			}
			a.key, _ = key.(crypto.Signer)
		}
	}
	if a.cert == nil || a.key == nil || len(a.cert.URIs) != 1 {
		return nil, errors.New("read an authority: a certificate with a SPIFFE ID and its key are expected")
	}
	id, err := spiffeid.FromURI(a.cert.URIs[0])
	if err != nil {
		return nil, fmt.Errorf("read the trust domain of an authority: %w", err)
	}
	a.domain = id.TrustDomain()
	return a, nil
}

// Issue returns an SVID with a new key for the workload at path, such as /ns/nsm-system/pod/nsmgr, good for lifetime
// from now on. Certificates count whole seconds, so it may begin up to a second early, and it ends no later.
func (a *Authority) Issue(path string, lifetime time.Duration) (*x509svid.SVID, error) {
	now := time.Now()
	return a.IssueFor(path, now, now.Add(lifetime))
}

// IssueFor returns an SVID with a new key that is good from one time to another.
func (a *Authority) IssueFor(path string, from, to time.Time) (*x509svid.SVID, error) {
	id, err := spiffeid.FromPath(a.domain, path)
	if err != nil {
		return nil, fmt.Errorf("SPIFFE ID of a workload: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of %s: %w", id, err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(a.serial.Add(1)),
		Subject:               pkix.Name{CommonName: id.String()},
		NotBefore:             from,
		NotAfter:              to,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs:                  []*url.URL{id.URL()},
	}
	cert, err := sign(template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", id, err)
	}
	return &x509svid.SVID{ID: id, Certificates: []*x509.Certificate{cert}, PrivateKey: key}, nil
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
