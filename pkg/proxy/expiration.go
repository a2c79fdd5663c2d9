// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// tokenExpires is the metadata in which an NSM client says when its token expires (SDK package token).
const tokenExpires = "nsm-client-token-expires" //nolint:gosec // the name of a header

// expirationOf returns the expiration time of an NSE, the zero time if it has none.
func expirationOf(nse *registry.NetworkServiceEndpoint) time.Time {
	if nse.GetExpirationTime() == nil {
		return time.Time{}
	}
	return nse.GetExpirationTime().AsTime()
}

// storedExpiration returns the expiration time that the store has after a Register. registry-k8s stores what it is asked
// for and chooses another one afterwards (SDK element expire, behind etcd); registry-memory does it the other way round.
func (p *Proxy) storedExpiration(request, response *registry.NetworkServiceEndpoint) time.Time {
	if p.options.Store == PartitionedStore {
		return expirationOf(response)
	}
	return expirationOf(request)
}

// withExpiration returns nse with an expiration time, the one it has or the longest that it can have: registry-k8s
// stores the first Register before it chooses one, and an NSE whose replica dies before the first refresh would live
// for ever.
func (p *Proxy) withExpiration(ctx context.Context, nse *registry.NetworkServiceEndpoint) *registry.NetworkServiceEndpoint {
	if nse == nil || nse.GetExpirationTime() != nil {
		return nse
	}
	expires := p.options.Clock.Now().Add(p.options.MaxTokenLifetime)
	for _, value := range metadata.ValueFromIncomingContext(ctx, tokenExpires) {
		// Whether the token is any good is for the registry to say.
		if token, err := time.Parse(time.RFC3339Nano, value); err == nil && token.Before(expires) {
			expires = token
		}
	}
	nse.ExpirationTime = timestamppb.New(expires)
	return nse
}
