// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"github.com/networkservicemesh/api/pkg/api/registry"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// response is what Find gives: one NSE or NS, or the news that it is deleted.
type response interface {
	proto.Message
	GetDeleted() bool
}

const (
	methodRegister   = "Register"
	methodUnregister = "Unregister"
	methodFind       = "Find"
)

// kind is what differs between Find of NSEs and Find of NSs. R is the response, Q the query.
type kind[Q proto.Message, R response] struct {
	service string // of gRPC
	space   shard.Space
	// complete fills in what a query can't do without. Registries dereference the NSE or NS to match with, and
	// a query without one would crash them; an empty one matches everything, as leaving it out suggests.
	complete func(Q) Q
	// watch says whether the query asks for one.
	watch func(Q) bool
	// listing is the query for what there is now, without watch.
	listing func(Q) Q
	// queryName is the name that the query asks for; empty: none.
	queryName func(Q) string
	// group is what chooses the member of a shared store that answers a query without a name.
	group func(Q) string
	// everything is the query for a watch on all there is.
	everything func() Q
	// record is what a response tells the directory.
	record func(R) shard.Record
	// name is the name of what a response is about.
	name func(R) string
	// newResponse returns a response to decode into.
	newResponse func() R
	// deleted returns the response that says that name, which matched the query, is no more.
	deleted func(q Q, name string) R
}

func nseKind() kind[*registry.NetworkServiceEndpointQuery, *registry.NetworkServiceEndpointResponse] {
	type (
		query    = registry.NetworkServiceEndpointQuery
		response = registry.NetworkServiceEndpointResponse
	)
	return kind[*query, *response]{
		service: "registry.NetworkServiceEndpointRegistry",
		space:   shard.NSE,
		watch:   (*query).GetWatch,
		complete: func(q *query) *query {
			if q == nil {
				q = new(query)
			}
			if q.NetworkServiceEndpoint == nil {
				q.NetworkServiceEndpoint = new(registry.NetworkServiceEndpoint)
			}
			return q
		},
		listing: func(q *query) *query {
			q = proto.CloneOf(q)
			q.Watch = false
			return q
		},
		queryName: func(q *query) string { return q.GetNetworkServiceEndpoint().GetName() },
		group: func(q *query) string {
			if names := q.GetNetworkServiceEndpoint().GetNetworkServiceNames(); len(names) > 0 {
				return names[0]
			}
			return ""
		},
		everything: func() *query {
			return &query{NetworkServiceEndpoint: new(registry.NetworkServiceEndpoint), Watch: true}
		},
		record: func(r *response) shard.Record {
			nse := r.GetNetworkServiceEndpoint()
			return shard.Record{PathIDs: nse.GetPathIds(), Expires: expirationOf(nse)}
		},
		name:        func(r *response) string { return r.GetNetworkServiceEndpoint().GetName() },
		newResponse: func() *response { return new(response) },
		deleted: func(q *query, name string) *response {
			nse := q.GetNetworkServiceEndpoint().Clone()
			nse.Name = name
			return &response{NetworkServiceEndpoint: nse, Deleted: true}
		},
	}
}

func nsKind() kind[*registry.NetworkServiceQuery, *registry.NetworkServiceResponse] {
	type (
		query    = registry.NetworkServiceQuery
		response = registry.NetworkServiceResponse
	)
	return kind[*query, *response]{
		service: "registry.NetworkServiceRegistry",
		space:   shard.NS,
		watch:   (*query).GetWatch,
		complete: func(q *query) *query {
			if q == nil {
				q = new(query)
			}
			if q.NetworkService == nil {
				q.NetworkService = new(registry.NetworkService)
			}
			return q
		},
		listing: func(q *query) *query {
			q = proto.CloneOf(q)
			q.Watch = false
			return q
		},
		queryName: func(q *query) string { return q.GetNetworkService().GetName() },
		group:     func(*query) string { return "" },
		everything: func() *query {
			return &query{NetworkService: new(registry.NetworkService), Watch: true}
		},
		record:      func(r *response) shard.Record { return shard.Record{PathIDs: r.GetNetworkService().GetPathIds()} },
		name:        func(r *response) string { return r.GetNetworkService().GetName() },
		newResponse: func() *response { return new(response) },
		deleted: func(q *query, name string) *response {
			ns := q.GetNetworkService().Clone()
			ns.Name = name
			return &response{NetworkService: ns, Deleted: true}
		},
	}
}

// serverStream is the server's side of a Find, whose generated types differ by service.
type serverStream[R response] interface {
	grpc.ServerStream
	Send(R) error
}
