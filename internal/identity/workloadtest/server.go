// SPDX-License-Identifier: Apache-2.0

package workloadtest

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"sync"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Server is a Workload API for one workload. It is safe for concurrent use.
type Server struct {
	workload.UnimplementedSpiffeWorkloadAPIServer

	path string

	mu      sync.Mutex
	current *workload.X509SVIDResponse
	// changed is closed when there is something new.
	changed chan struct{}
	// ended is closed when the streams that are open are to end with end.
	ended   chan struct{}
	end     error
	streams int
	server  *grpc.Server
	served  sync.WaitGroup
}

// NewServer returns a server that will listen on a unix socket at path, which has to be short (104 bytes are too long).
// It has no SVID to give yet.
func NewServer(path string) *Server {
	return &Server{path: path, changed: make(chan struct{}), ended: make(chan struct{})}
}

// Addr is the address of the server as SPIFFE_ENDPOINT_SOCKET has it.
func (s *Server) Addr() string { return "unix://" + s.path }

// Start begins to serve. A server can be started again after it was stopped.
func (s *Server) Start(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", s.path)
	if err != nil {
		return fmt.Errorf("listen for the Workload API: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	server := grpc.NewServer()
	workload.RegisterSpiffeWorkloadAPIServer(server, s)
	s.server = server
	s.served.Go(func() { _ = server.Serve(l) }) // ends when the server is stopped
	return nil
}

// Stop ends all streams and takes the socket away. It does nothing if the server is not running.
func (s *Server) Stop() {
	s.mu.Lock()
	server := s.server
	s.server = nil
	s.mu.Unlock()
	if server != nil {
		server.Stop()
	}
	s.served.Wait()
}

// Set gives the workload another SVID, and the bundles of the authorities that it is to trust. The first of them is
// that of its own domain.
func (s *Server) Set(svid *x509svid.SVID, own *Authority, federated ...*Authority) error {
	response, err := Response(svid, own, federated...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = response
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// Response encodes an SVID and the bundles of the authorities that its workload is to trust. The first of them is that
// of its own domain.
func Response(svid *x509svid.SVID, own *Authority, federated ...*Authority) (*workload.X509SVIDResponse, error) {
	key, err := x509.MarshalPKCS8PrivateKey(svid.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("encode the key of %s: %w", svid.ID, err)
	}
	response := &workload.X509SVIDResponse{
		Svids: []*workload.X509SVID{{
			SpiffeId:    svid.ID.String(),
			X509Svid:    concat(svid.Certificates),
			X509SvidKey: key,
			Bundle:      own.cert.Raw,
		}},
		FederatedBundles: make(map[string][]byte, len(federated)),
	}
	for _, a := range federated {
		response.FederatedBundles[a.domain.IDString()] = a.cert.Raw
	}
	return response, nil
}

// End ends the streams that are open with err, and goes on to serve.
func (s *Server) End(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = err
	close(s.ended)
	s.ended = make(chan struct{})
}

// Streams returns how many clients are being served.
func (s *Server) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams
}

// FetchX509SVID implements the Workload API: what there is now, and then what is new (SPIFFE Workload API, 5.2.1).
func (s *Server) FetchX509SVID(_ *workload.X509SVIDRequest, stream grpc.ServerStreamingServer[workload.X509SVIDResponse]) error {
	ctx := stream.Context()
	if values := metadata.ValueFromIncomingContext(ctx, "workload.spiffe.io"); len(values) != 1 || values[0] != "true" {
		return status.Error(codes.InvalidArgument, "the security header is missing")
	}
	s.count(1)
	defer s.count(-1)
	ended := s.endOf()
	for {
		current, changed := s.state()
		if current == nil {
			return status.Error(codes.PermissionDenied, "no identity issued")
		}
		if err := stream.Send(current); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			return s.reason()
		case <-changed:
		}
	}
}

func (s *Server) state() (*workload.X509SVIDResponse, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.changed
}

func (s *Server) endOf() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

func (s *Server) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

func (s *Server) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams += n
}

func concat(certs []*x509.Certificate) []byte {
	var all []byte
	for _, c := range certs {
		all = append(all, c.Raw...)
	}
	return all
}
