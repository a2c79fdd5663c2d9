// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// flavour is one of the two registry services. Tests see both the same way.
type flavour struct {
	name    string
	service string
	space   shard.Space
}

func nseFlavour() flavour {
	return flavour{name: "NSE", service: "registry.NetworkServiceEndpointRegistry", space: shard.NSE}
}

func nsFlavour() flavour {
	return flavour{name: "NS", service: "registry.NetworkServiceRegistry", space: shard.NS}
}

// eachFlavour runs test for both services.
func eachFlavour(t *testing.T, test func(t *testing.T, f flavour)) {
	t.Helper()
	for _, f := range []flavour{nseFlavour(), nsFlavour()} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			test(t, f)
		})
	}
}

// item is an NSE or NS.
func (f flavour) item(name string) proto.Message { return f.itemWith(name, "") }

// itemWith is an NSE or NS with something in it that may differ.
func (f flavour) itemWith(name, content string) proto.Message {
	if f.space == shard.NSE {
		return &registry.NetworkServiceEndpoint{Name: name, Url: content}
	}
	return &registry.NetworkService{Name: name, Payload: content}
}

func (f flavour) query(name string, watch bool) proto.Message {
	if f.space == shard.NSE {
		return &registry.NetworkServiceEndpointQuery{NetworkServiceEndpoint: &registry.NetworkServiceEndpoint{Name: name}, Watch: watch}
	}
	return &registry.NetworkServiceQuery{NetworkService: &registry.NetworkService{Name: name}, Watch: watch}
}

func (f flavour) response(item proto.Message, deleted bool) proto.Message {
	if f.space == shard.NSE {
		return &registry.NetworkServiceEndpointResponse{NetworkServiceEndpoint: item.(*registry.NetworkServiceEndpoint), Deleted: deleted}
	}
	return &registry.NetworkServiceResponse{NetworkService: item.(*registry.NetworkService), Deleted: deleted}
}

func (f flavour) emptyItem() proto.Message { return f.item("") }

func (f flavour) emptyQuery() proto.Message {
	if f.space == shard.NSE {
		return new(registry.NetworkServiceEndpointQuery)
	}
	return new(registry.NetworkServiceQuery)
}

func (f flavour) emptyResponse() proto.Message {
	if f.space == shard.NSE {
		return new(registry.NetworkServiceEndpointResponse)
	}
	return new(registry.NetworkServiceResponse)
}

func (f flavour) key(name string) shard.Key { return shard.Key{Space: f.space, Name: name} }

func (f flavour) method(name string) string { return "/" + f.service + "/" + name }

// nameOf is the name in an item, query or response.
func nameOf(m proto.Message) string {
	switch m := m.(type) {
	case *registry.NetworkServiceEndpoint:
		return m.GetName()
	case *registry.NetworkServiceEndpointQuery:
		return m.GetNetworkServiceEndpoint().GetName()
	case *registry.NetworkServiceEndpointResponse:
		return m.GetNetworkServiceEndpoint().GetName()
	case *registry.NetworkService:
		return m.GetName()
	case *registry.NetworkServiceQuery:
		return m.GetNetworkService().GetName()
	case *registry.NetworkServiceResponse:
		return m.GetNetworkService().GetName()
	default:
		panic(fmt.Sprintf("no name in a %T", m))
	}
}

// contentOf is what itemWith put into the item of a response.
func contentOf(m proto.Message) string {
	switch m := m.(type) {
	case *registry.NetworkServiceEndpointResponse:
		return m.GetNetworkServiceEndpoint().GetUrl()
	case *registry.NetworkServiceResponse:
		return m.GetNetworkService().GetPayload()
	default:
		panic(fmt.Sprintf("no content in a %T", m))
	}
}

// isDeleted says whether a response tells that something was deleted.
func isDeleted(m proto.Message) bool { return m.(interface{ GetDeleted() bool }).GetDeleted() }

// isWatch says whether a query asks for a watch.
func isWatch(m proto.Message) bool { return m.(interface{ GetWatch() bool }).GetWatch() }

func (f flavour) register(ctx context.Context, cc *grpc.ClientConn, item proto.Message) (proto.Message, error) {
	resp := f.emptyItem()
	return resp, cc.Invoke(ctx, f.method("Register"), item, resp)
}

func (f flavour) unregister(ctx context.Context, cc *grpc.ClientConn, item proto.Message) (*emptypb.Empty, error) {
	resp := new(emptypb.Empty)
	return resp, cc.Invoke(ctx, f.method("Unregister"), item, resp)
}

// found is a client's side of a Find.
type found struct {
	grpc.ClientStream
	flavour flavour
}

func (f flavour) find(ctx context.Context, cc *grpc.ClientConn, query proto.Message) (*found, error) {
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, f.method("Find"))
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(query); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return &found{ClientStream: stream, flavour: f}, stream.CloseSend()
}

func (s *found) recv() (proto.Message, error) {
	r := s.flavour.emptyResponse()
	return r, s.RecvMsg(r)
}

// all reads to the end; the end itself is no error.
func (s *found) all() ([]proto.Message, error) {
	var responses []proto.Message
	for {
		r, err := s.recv()
		if errors.Is(err, io.EOF) {
			return responses, nil
		}
		if err != nil {
			return responses, err
		}
		responses = append(responses, r)
	}
}

func (f flavour) list(ctx context.Context, cc *grpc.ClientConn, query proto.Message) ([]proto.Message, error) {
	s, err := f.find(ctx, cc, query)
	if err != nil {
		return nil, err
	}
	return s.all()
}

// flavourOf is the service of a full method name, and the method.
func flavourOf(fullMethod string) (flavour, string) {
	service, method, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	if service == nsFlavour().service {
		return nsFlavour(), method
	}
	return nseFlavour(), method
}
