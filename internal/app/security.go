// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"k8s.io/utils/clock"

	"github.com/networkservicemesh/registry-lb/internal/config"
	"github.com/networkservicemesh/registry-lb/internal/identity"
	"github.com/networkservicemesh/registry-lb/internal/policy"
	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// maxConnectionAge is how long clients use one connection for new calls. Then gRPC has them make another one; calls and
// watches on the old one go on to their end. It keeps connections from outliving the certificate that was shown on them,
// for which SPIRE's default is an hour, renewed at half of it.
const maxConnectionAge = 10 * time.Minute

// security is how connections are secured on both sides.
type security struct {
	source        *identity.Source // nil without TLS
	serverOptions []grpc.ServerOption
	dialOptions   []grpc.DialOption
	hop           *proxy.Hop
}

func newSecurity(cfg *config.Config, log *zap.Logger) (*security, error) {
	if cfg.TLS == config.TLSInsecure {
		return &security{dialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}}, nil
	}
	source, err := identity.NewSource(os.Getenv(workloadapi.SocketEnv), log)
	if err != nil {
		return nil, err
	}
	callers, err := policy.New(cfg.RegistryServerPolicies, clock.RealClock{})
	if err != nil {
		return nil, fmt.Errorf("NSM_REGISTRY_SERVER_POLICIES: %w", err)
	}
	answers, err := policy.New(cfg.RegistryClientPolicies, clock.RealClock{})
	if err != nil {
		return nil, fmt.Errorf("NSM_REGISTRY_CLIENT_POLICIES: %w", err)
	}
	log.Info("callers are checked", zap.Strings("policies", callers.Names()))
	log.Info("answers of replicas are checked", zap.Strings("policies", answers.Names()))
	tokens := identity.Reuse(identity.Tokens(source, cfg.MaxTokenLifetime, clock.RealClock{}), clock.RealClock{})
	members := func(s identity.SVIDs) credentials.TransportCredentials {
		return identity.ClientCredentials(s, cfg.BackendIdentities)
	}
	return &security{
		source: source,
		serverOptions: []grpc.ServerOption{
			grpc.Creds(identity.LogRefused(identity.Bind(source, identity.ServerCredentials), log)),
			grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: maxConnectionAge}),
		},
		dialOptions: []grpc.DialOption{
			grpc.WithTransportCredentials(identity.Bind(source, members)),
			grpc.WithPerRPCCredentials(token.NewPerRPCCredentials(tokens)),
		},
		hop: &proxy.Hop{Tokens: tokens, Authorize: check(callers, policy.Server), Accept: check(answers, policy.Client)},
	}, nil
}

// somebodyElse stands for the owner of a name in what policies are given: the directory knows whether the caller is the
// owner, and keeps no more of who is than it needs for that. It is no SPIFFE ID, so no caller has it.
const somebodyElse = "another owner"

// check asks the policies of one side with what the directory knows about the owner of the name; nil if there are none.
func check(checker *policy.Checker, side policy.Side) func(context.Context, proxy.Authorization) error {
	if len(checker.Names()) == 0 {
		return nil
	}
	return func(ctx context.Context, call proxy.Authorization) error {
		in := policy.Input{Side: side, Name: call.Key.Name, Path: call.Path}
		if p, ok := peer.FromContext(ctx); ok {
			in.Certificate = identity.Certificate(p.AuthInfo)
		}
		switch caller := policy.Subject(call.Path); call.OwnedBy(caller) {
		case shard.Owner:
			in.PathIDs = []string{caller}
		case shard.NotOwner:
			in.PathIDs = []string{somebodyElse}
		case shard.OwnerUnknown:
		}
		return checker.Check(ctx, in)
	}
}

// run keeps the certificates up to date until ctx is done.
func (s *security) run(ctx context.Context) error {
	if s.source == nil {
		return nil
	}
	return s.source.Run(ctx)
}

// followRenewals calls renew whenever the SVID has been replaced, until ctx is done.
func (s *security) followRenewals(ctx context.Context, renew func()) {
	if s.source == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.source.Renewed():
			renew()
		}
	}
}

// wait blocks until connections can be secured, or ctx is done.
func (s *security) wait(ctx context.Context) {
	if s.source == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-s.source.Given():
	}
}

// err is why connections can't be secured; nil if they can be.
func (s *security) err() error {
	if s.source == nil {
		return nil
	}
	return s.source.Err()
}
