// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/edwarnicke/genericsync"
	"github.com/golang/protobuf/ptypes/empty"
	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/common/authorize"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/networkservicemesh/sdk/pkg/registry/core/next"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"github.com/networkservicemesh/registry-lb/internal/policy"
)

// The masks of registry-k8s.
func serverMasks() []string {
	return []string{"etc/nsm/opa/common/.*.rego", "etc/nsm/opa/registry/.*.rego", "etc/nsm/opa/server/.*.rego"}
}

func clientMasks() []string {
	return []string{"etc/nsm/opa/common/.*.rego", "etc/nsm/opa/registry/.*.rego", "etc/nsm/opa/client/.*.rego"}
}

// errPanic stands for a panic of the reference, which would have ended a registry.
var errPanic = errors.New("the reference panicked")

// reference is NSM's authorize element, on either side.
type reference struct {
	entries *genericsync.Map[string, []string]
	server  registry.NetworkServiceEndpointRegistryServer
	client  registry.NetworkServiceEndpointRegistryClient
}

func newReference(masks ...string) *reference {
	entries := new(genericsync.Map[string, []string])
	options := []authorize.Option{authorize.WithPolicies(masks...), authorize.WithResourcePathIDsMap(entries)}
	return &reference{
		entries: entries,
		server:  authorize.NewNetworkServiceEndpointRegistryServer(options...),
		client: next.NewNetworkServiceEndpointRegistryClient(
			authorize.NewNetworkServiceEndpointRegistryClient(options...), answering{}),
	}
}

// answering is the far end of a client chain: it presents a certificate and agrees.
type answering struct {
	registry.NetworkServiceEndpointRegistryClient
}

type certKey struct{}

func (answering) Register(ctx context.Context, nse *registry.NetworkServiceEndpoint, opts ...grpc.CallOption) (*registry.NetworkServiceEndpoint, error) {
	for _, opt := range opts {
		if p, ok := opt.(grpc.PeerCallOption); ok {
			if cert, ok := ctx.Value(certKey{}).(*x509.Certificate); ok && cert != nil {
				p.PeerAddr.AuthInfo = authInfo(cert)
			}
		}
	}
	return nse, nil
}

func (answering) Unregister(context.Context, *registry.NetworkServiceEndpoint, ...grpc.CallOption) (*empty.Empty, error) {
	return &empty.Empty{}, nil
}

func authInfo(cert *x509.Certificate) credentials.AuthInfo {
	return credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}}
}

// check registers in's NSE at an element that knows in's entry besides what it knew.
func (r *reference) check(ctx context.Context, in policy.Input) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	if in.PathIDs != nil {
		r.entries.Store(in.Name, in.PathIDs)
	}
	defer r.entries.Delete(in.Name)
	if in.Path != nil {
		// Without spare room, or the element would reach behind the path instead of panicking.
		path := &grpcmetadata.Path{Index: in.Path.Index, PathSegments: slices.Clip(in.Path.PathSegments)}
		ctx = grpcmetadata.PathWithContext(ctx, path)
	}
	ctx = log.WithLog(ctx, log.Empty())
	nse := &registry.NetworkServiceEndpoint{Name: in.Name}
	if in.Side == policy.Client {
		_, err = r.client.Register(context.WithValue(ctx, certKey{}, in.Certificate), nse)
		return err
	}
	if in.Certificate != nil {
		ctx = peer.NewContext(ctx, &peer.Peer{AuthInfo: authInfo(in.Certificate)})
	}
	_, err = r.server.Register(ctx, nse)
	return err
}

// contest is a checker and the reference for the same masks.
type contest struct {
	name      string
	checker   *policy.Checker
	reference *reference
}

func newContest(tb testing.TB, masks ...string) contest {
	tb.Helper()
	checker, err := policy.New(masks, clock.RealClock{})
	require.NoError(tb, err)
	return contest{name: fmt.Sprint(masks), checker: checker, reference: newReference(masks...)}
}

// contests has one for each policy that NSM ships, so that none hides behind another, and one for each whole list.
func contests(tb testing.TB) []contest {
	tb.Helper()
	lists := [][]string{
		serverMasks(), clientMasks(),
		{"etc/nsm/opa/common/tokens_valid.rego"},
		{"etc/nsm/opa/common/tokens_chained.rego"},
		{"etc/nsm/opa/common/tokens_expired.rego"},
		{"etc/nsm/opa/registry/client_allowed.rego"},
		{"etc/nsm/opa/server/prev_token_signed.rego"},
		{"etc/nsm/opa/client/next_token_signed.rego"},
	}
	all := make([]contest, len(lists))
	for i, masks := range lists {
		all[i] = newContest(tb, masks...)
	}
	return all
}

// differs says in what the checker's answer is not the reference's, or "".
func (c *contest) differs(ctx context.Context, in policy.Input) string {
	early := c.checker.Check(ctx, in)
	want := c.reference.check(ctx, in)
	got := c.checker.Check(ctx, in)
	if (early == nil) != (got == nil) {
		return "" // a token expired in between
	}
	switch {
	case impossible(in):
		if got == nil {
			return c.name + ": allowed with a path that updatepath refuses"
		}
	case errors.Is(want, errPanic):
		if status.Code(got) != codes.Internal {
			return fmt.Sprintf("%s: %v, but checker says %v", c.name, want, got)
		}
	case (want == nil) != (got == nil), status.Code(want) != status.Code(got),
		want != nil && want.Error() != got.Error():
		return fmt.Sprintf("%s: reference says %v, checker says %v", c.name, want, got)
	}
	return ""
}

// impossible is what updatepath refuses, or panics on, before authorize is reached, whose answer then depends on how its
// slice and its index happen to overflow.
func impossible(in policy.Input) bool {
	if in.Path == nil || len(in.Path.PathSegments) == 0 {
		return false
	}
	segments := in.Path.PathSegments
	return segments[0] == nil || in.Side == policy.Server && uint64(in.Path.Index) >= uint64(len(segments))
}
