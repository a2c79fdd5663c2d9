// SPDX-License-Identifier: Apache-2.0

package nsm

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/networkservicemesh/sdk/pkg/tools/spiffejwt"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Identity is who a command is, as NSM's own commands set themselves up.
type Identity struct {
	source *workloadapi.X509Source
	sign   token.GeneratorFunc
}

// NewIdentity waits for the Workload API at SPIFFE_ENDPOINT_SOCKET to give an SVID. Tokens live for lifetime at most.
func NewIdentity(ctx context.Context, lifetime time.Duration) (*Identity, error) {
	source, err := workloadapi.NewX509Source(ctx)
	if err != nil {
		return nil, fmt.Errorf("get an SVID from the Workload API: %w", err)
	}
	return &Identity{source: source, sign: spiffejwt.TokenGeneratorFunc(source, lifetime)}, nil
}

// Sign generates tokens.
func (i *Identity) Sign(info credentials.AuthInfo) (string, time.Time, error) { return i.sign(info) }

// ServerOption secures a server.
func (i *Identity) ServerOption() grpc.ServerOption {
	config := tlsconfig.MTLSServerConfig(i.source, i.source, tlsconfig.AuthorizeAny())
	config.MinVersion = tls.VersionTLS12
	return grpc.Creds(credentials.NewTLS(config))
}

// DialOptions secure a client and give its calls tokens.
func (i *Identity) DialOptions() []grpc.DialOption {
	config := tlsconfig.MTLSClientConfig(i.source, i.source, tlsconfig.AuthorizeAny())
	config.MinVersion = tls.VersionTLS12
	return []grpc.DialOption{
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true), grpc.PerRPCCredentials(token.NewPerRPCCredentials(i.sign))),
	}
}
