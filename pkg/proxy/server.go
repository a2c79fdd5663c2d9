// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress what they send
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

// minPingInterval is how often a client may ping. gRPC's default of 5 minutes cuts off clients that are configured
// to find a dead connection within seconds, with "too_many_pings". It is well below what they use, because three pings
// that come a little early are enough to be cut off.
const minPingInterval = time.Second

// handshakeTimeout bounds what one connection may cost before its first call: NSM's clients connect anew for each Find,
// and give up after 15 seconds.
const handshakeTimeout = 20 * time.Second

// readBuffer is how much is read at once from a client. Each NSE has two connections here, one for its calls and one for
// its watch (the SDK's element dial makes both), on which next to nothing happens, so what they hold decides how many
// fit; gRPC's 32 KiB would be most of it. Under TLS it is the second buffer anyway: records are read whole.
const readBuffer = 4 << 10

// ServerOptions returns the options that a gRPC server in front of the proxy needs, so that what a member would take
// is not refused on the way.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.ReadBufferSize(readBuffer),
		grpc.MaxRecvMsgSize(MaxMessageSize),
		grpc.MaxSendMsgSize(MaxMessageSize + additions),
		grpc.MaxHeaderListSize(MaxHeaderListSize),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             minPingInterval,
			PermitWithoutStream: true,
		}),
	}
}

// Register registers both registry services and gRPC's health service with s.
func (p *Proxy) Register(s *grpc.Server, health grpc_health_v1.HealthServer) {
	registry.RegisterNetworkServiceEndpointRegistryServer(s, p.NetworkServiceEndpointRegistryServer())
	registry.RegisterNetworkServiceRegistryServer(s, p.NetworkServiceRegistryServer())
	grpc_health_v1.RegisterHealthServer(s, health)
}

// ServiceNames returns the full names of the gRPC services of a registry, as health checks ask for them.
func ServiceNames() []string {
	return []string{nseKind().service, nsKind().service}
}
