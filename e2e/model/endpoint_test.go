// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"slices"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
)

// endpoint is an NSE: what its client remembers, and what the model knows of it.
type endpoint struct {
	name string
	// service is the network service that it offers.
	service string

	// request is what its client sends next, path is what goes with it.
	request *registry.NetworkServiceEndpoint
	path    *grpcmetadata.Path

	// registered NSEs have been registered and not unregistered.
	registered bool
	// lost ones were known to a member only whose memory is gone.
	lost bool
	// holder is the member that last answered a Register; the zero value if it has left since.
	holder member.Life
	// claims are all members that have answered a Register since the NSE was registered and that have not left.
	claims map[member.Life]struct{}
	// fresh news are those that not all balancers may have heard; the one called teller has.
	fresh  bool
	teller string
}

func newEndpoint(name, service string) *endpoint {
	e := &endpoint{name: name, service: service}
	e.forget()
	return e
}

// forget makes the client start anew, as an NSE does that restarts.
func (e *endpoint) forget() {
	e.request = &registry.NetworkServiceEndpoint{
		Name:                e.name,
		Url:                 "tcp://" + e.name,
		NetworkServiceNames: []string{e.service},
	}
	e.path = new(grpcmetadata.Path)
}

// answered takes in the answer to a Register by holder through the balancer called teller.
func (e *endpoint) answered(resp *registry.NetworkServiceEndpoint, holder member.Life, teller string) {
	// As the SDK's client does, in begin: all of the answer comes back with the next request but the expiration time.
	e.request = resp.Clone()
	e.request.ExpirationTime = nil
	if e.claims == nil {
		e.claims = make(map[member.Life]struct{})
	}
	if !e.registered || e.lost || e.holder != holder {
		e.fresh, e.teller = true, teller
	}
	e.claims[holder] = struct{}{}
	e.registered, e.lost, e.holder = true, false, holder
}

// unregistered takes in the end of the NSE.
func (e *endpoint) unregistered(teller string) {
	e.registered, e.lost, e.holder, e.claims = false, false, member.Life{}, nil
	e.fresh, e.teller = true, teller
	e.forget()
}

// left takes in that a member is gone, and its memory with it if it has stopped.
func (e *endpoint) left(l member.Life, memoryOnly, stopped bool) {
	delete(e.claims, l)
	if e.holder != l {
		return
	}
	e.holder = member.Life{}
	e.lost = e.lost || memoryOnly && stopped
}

// there says whether the registry knows the NSE.
func (e *endpoint) there() bool { return e.registered && !e.lost }

// lastOf returns the last of an NSE's path_ids.
func lastOf(nse *registry.NetworkServiceEndpoint) string {
	if ids := nse.GetPathIds(); len(ids) > 0 {
		return ids[len(ids)-1]
	}
	return ""
}

// namesOf returns the names of NSEs, sorted.
func namesOf(nses []*registry.NetworkServiceEndpoint) []string {
	names := make([]string, 0, len(nses))
	for _, nse := range nses {
		names = append(names, nse.GetName())
	}
	slices.Sort(names)
	return names
}
