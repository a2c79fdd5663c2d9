// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"context"
	"strings"
	"testing"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

func oddNames() map[string]string {
	return map[string]string{
		"empty":              "",
		"a space":            " ",
		"interdomain":        "nse@domain.example",
		"two at signs":       "nse@a@b",
		"only an at sign":    "@",
		"slashes":            "/../a//b",
		"blanks":             "  a \t b  ",
		"unicode":            "ñandú-\u0301-世界-🙂-\u202e",
		"not normalised":     "e\u0301",
		"control characters": "\x00\x01\r\n\x1b[31m\x7f",
		"percent":            "%s%n%00",
		"one megabyte":       strings.Repeat("n", 1<<20),
	}
}

func TestOddNamesStayWithOneMember(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		members := startScripteds(t, "a", "b", "c", "d")
		answers(members)
		front := startFront(t, proxy.Options{}, describe(members)...)
		ring := ringOf(members)
		for label, name := range oddNames() {
			want, ok := ring.Locate(f.key(name))
			require.True(t, ok)
			ask := func(what string, err error) {
				t.Helper()
				requireCode(t, codes.NotFound, err)
				if name == "" && what == "list" {
					return // of all: any member may answer
				}
				require.Equal(t, want, status.Convert(err).Message(), "%s of the name: %s", what, label)
			}
			_, err := f.register(within(t), front.cc, f.item(name))
			ask("register", err)
			_, err = f.list(within(t), front.cc, f.query(name, false))
			ask("list", err)
			_, err = f.list(within(t), front.cc, f.query(name, true))
			if name != "" {
				ask("watch", err)
			}
			_, err = f.unregister(within(t), front.cc, f.item(name))
			ask("unregister", err)
		}
	})
}

// rawCodec sends and receives bytes as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func (rawCodec) Name() string { return "proto" }

var _ encoding.CodecV2 = rawCodec{}

func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		m := startScripted(t, "a")
		front := startFront(t, proxy.Options{}, m.Member)
		for label, message := range map[string]string{
			"invalid UTF-8 in the name": "\x0a\x02\xff\xfe",
			"cut off":                   "\x0a\x7f",
			"no protobuf at all":        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		} {
			for _, method := range []string{"Register", "Unregister", "Find"} {
				body, resp := []byte(message), []byte(nil)
				err := front.cc.Invoke(within(t), f.method(method), &body, &resp, grpc.ForceCodecV2(rawCodec{}))
				requireCode(t, codes.Internal, err)
				require.Zero(t, m.calls(), "%s of %s", method, label)
			}
		}
		_, err := f.register(within(t), front.cc, f.item("name"))
		require.NoError(t, err)
	})
}

func TestQueriesWithoutAnything(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		m := startScripted(t, "a")
		queries := make(chan bool, 1)
		m.set(func(c *call) error {
			switch q := c.request.(type) {
			case *registry.NetworkServiceEndpointQuery:
				queries <- q.GetNetworkServiceEndpoint() != nil
			case *registry.NetworkServiceQuery:
				queries <- q.GetNetworkService() != nil
			}
			return c.SendMsg(answerOf(c))
		})
		front := startFront(t, proxy.Options{}, m.Member)
		list, err := f.list(within(t), front.cc, f.emptyQuery())
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.True(t, <-queries, "a registry would crash")
	})
}

// sink is a stream of a chain that stands in no gRPC server.
type sink[R any] struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // a stream has one
	got []R
}

func (s *sink[R]) Context() context.Context     { return s.ctx }
func (s *sink[R]) SetHeader(metadata.MD) error  { return nil }
func (s *sink[R]) SendHeader(metadata.MD) error { return nil }
func (s *sink[R]) SetTrailer(metadata.MD)       {}
func (s *sink[R]) Send(r R) error               { s.got = append(s.got, r); return nil }

func TestChainElementsTakeNil(t *testing.T) {
	t.Parallel()
	m := startScripted(t, "a")
	m.set(func(c *call) error { return c.SendMsg(answerOf(c)) })
	front := startFront(t, proxy.Options{}, m.Member)
	ctx := within(t)

	nses := front.NetworkServiceEndpointRegistryServer()
	_, err := nses.Register(ctx, nil)
	require.NoError(t, err)
	_, err = nses.Unregister(ctx, nil)
	require.NoError(t, err)
	nseSink := &sink[*registry.NetworkServiceEndpointResponse]{ctx: ctx}
	require.NoError(t, nses.Find(nil, nseSink))
	require.Len(t, nseSink.got, 1)

	nss := front.NetworkServiceRegistryServer()
	_, err = nss.Register(ctx, nil)
	require.NoError(t, err)
	_, err = nss.Unregister(ctx, nil)
	require.NoError(t, err)
	nsSink := &sink[*registry.NetworkServiceResponse]{ctx: ctx}
	require.NoError(t, nss.Find(nil, nsSink))
	require.Len(t, nsSink.got, 1)
}
