// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/core/next"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// attempts is the last element of the client's chain before the connection: it sees each attempt of each call, those of
// refreshes included.
type attempts struct {
	ledger *ledger
}

// Register implements registry.NetworkServiceEndpointRegistryClient.
func (a attempts) Register(ctx context.Context, nse *registry.NetworkServiceEndpoint, opts ...grpc.CallOption) (*registry.NetworkServiceEndpoint, error) {
	began := time.Now()
	answer, err := next.NetworkServiceEndpointRegistryClient(ctx).Register(ctx, nse, opts...)
	if err != nil {
		a.ledger.failed(ctx, "Register", err)
		return nil, err
	}
	a.ledger.registered(nse.GetName(), holder(answer), time.Since(began))
	return answer, nil
}

// Unregister implements registry.NetworkServiceEndpointRegistryClient.
func (a attempts) Unregister(ctx context.Context, nse *registry.NetworkServiceEndpoint, opts ...grpc.CallOption) (*emptypb.Empty, error) {
	answer, err := next.NetworkServiceEndpointRegistryClient(ctx).Unregister(ctx, nse, opts...)
	if err != nil {
		a.ledger.failed(ctx, "Unregister", err)
		return nil, err
	}
	a.ledger.unregistered(nse.GetName())
	return answer, nil
}

// Find implements registry.NetworkServiceEndpointRegistryClient.
func (a attempts) Find(ctx context.Context, query *registry.NetworkServiceEndpointQuery, opts ...grpc.CallOption) (registry.NetworkServiceEndpointRegistry_FindClient, error) {
	return next.NetworkServiceEndpointRegistryClient(ctx).Find(ctx, query, opts...)
}

// holder is the pod of the replica that answered: it writes its own SPIFFE ID last.
func holder(nse *registry.NetworkServiceEndpoint) string {
	ids := nse.GetPathIds()
	if len(ids) == 0 {
		return ""
	}
	id := ids[len(ids)-1]
	return id[strings.LastIndexByte(id, '/')+1:]
}
