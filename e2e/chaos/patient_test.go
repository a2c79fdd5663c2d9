// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"

	"github.com/networkservicemesh/api/pkg/api/registry"
	sdkregistry "github.com/networkservicemesh/sdk/pkg/registry"
	"github.com/networkservicemesh/sdk/pkg/tools/token"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
)

// patient repairs one fault of registry-k8s, which would otherwise decide how watches fare here. A replica hands each
// event to each watch through a channel of 64 places, and a watch that can't send any more leaves without emptying its
// own; if more events than that are on their way then, as they are after a replica was stopped for some seconds, the
// replica waits for that channel for ever, and tells no watch anything again. Its health and its lists stay good, so
// nobody who looks from outside can know.
//
// Here what can't be sent counts as sent, so that the channel is read until the watch is over.
func patient(r member.Registry) member.Registry {
	return func(ctx context.Context, token token.GeneratorFunc) sdkregistry.Registry {
		inner := r(ctx, token)
		return sdkregistry.NewServer(inner.NetworkServiceRegistryServer(), patientServer{inner.NetworkServiceEndpointRegistryServer()})
	}
}

// patientServer passes everything on.
type patientServer struct {
	registry.NetworkServiceEndpointRegistryServer
}

// Find gives watches a stream that does not fail.
func (p patientServer) Find(query *registry.NetworkServiceEndpointQuery, s registry.NetworkServiceEndpointRegistry_FindServer) error {
	if query.GetWatch() {
		s = patientStream{s}
	}
	return p.NetworkServiceEndpointRegistryServer.Find(query, s)
}

type patientStream struct {
	registry.NetworkServiceEndpointRegistry_FindServer
}

// Send sends r if it can.
func (s patientStream) Send(r *registry.NetworkServiceEndpointResponse) error {
	_ = s.NetworkServiceEndpointRegistry_FindServer.Send(r) // the watch ends with its context
	return nil
}
