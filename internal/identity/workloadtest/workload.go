// SPDX-License-Identifier: Apache-2.0

package workloadtest

import (
	"sync/atomic"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

// Workload is an SVID and what its holder trusts, without a Workload API. It is safe for concurrent use and implements
// x509svid.Source and x509bundle.Source.
type Workload struct {
	svid  atomic.Pointer[x509svid.SVID]
	trust *x509bundle.Set
}

// NewWorkload returns the holder of svid, who trusts these authorities.
func NewWorkload(svid *x509svid.SVID, trusted ...*Authority) *Workload {
	w := &Workload{trust: x509bundle.NewSet()}
	w.Renew(svid)
	for _, a := range trusted {
		w.trust.Add(a.Bundle())
	}
	return w
}

// Renew replaces the SVID.
func (w *Workload) Renew(svid *x509svid.SVID) { w.svid.Store(svid) }

// ID returns the SPIFFE ID.
func (w *Workload) ID() string { return w.svid.Load().ID.String() }

// GetX509SVID implements x509svid.Source.
func (w *Workload) GetX509SVID() (*x509svid.SVID, error) { return w.svid.Load(), nil }

// GetX509BundleForTrustDomain implements x509bundle.Source.
func (w *Workload) GetX509BundleForTrustDomain(domain spiffeid.TrustDomain) (*x509bundle.Bundle, error) {
	return w.trust.GetX509BundleForTrustDomain(domain)
}
