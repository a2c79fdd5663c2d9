// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang/protobuf/ptypes/empty"
	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/core/next"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// verb is what a call does.
type verb string

const (
	register   verb = "register"
	unregister verb = "unregister"
	find       verb = "find"
	// expire is what the environment does to what is not refreshed.
	expire verb = "expire"
)

// forever is when a call ends whose effect may come at any time after its start.
const forever = time.Duration(math.MaxInt64)

// call is one call as it went over the wire. Times are since the start of the history.
type call struct {
	verb verb
	name string
	// version is what was registered or found: an NSE has another one each time it is registered by the program, and
	// the same one when it is refreshed or healed. 0: not found.
	version    int
	start, end time.Duration
	// left is how much time the caller gave, 0 if without end.
	left time.Duration
	err  error
	// abandoned calls were cancelled by their caller.
	abandoned bool
}

// String describes the call for people.
func (c *call) String() string {
	s := fmt.Sprintf("%9.3f - %9.3f %s %s", c.start.Seconds(), c.end.Seconds(), c.verb, c.name)
	if c.version != 0 {
		s += fmt.Sprintf(" version %d", c.version)
	}
	if c.err != nil {
		s += fmt.Sprintf(" (%v left): %v", c.left.Round(time.Millisecond), c.err)
	}
	return s
}

// sighting is what a watch told.
type sighting struct {
	at      time.Duration
	name    string
	version int
	deleted bool
}

// session is one watch over one network service, from its first header to its end.
type session struct {
	service    string
	start, end time.Duration
	err        error
	seen       []sighting
}

// history is what clients did and saw. It is safe for concurrent use.
type history struct {
	began time.Time

	mu       sync.Mutex
	calls    []*call
	sessions []*session
	// failures are the calls that failed for the program, after all that the SDK has done about it.
	failures []*call
}

func newHistory() *history { return &history{began: time.Now()} }

func (h *history) now() time.Duration { return time.Since(h.began) }

// url carries a version through registries, which pass it on as it is.
func url(version int) string { return fmt.Sprintf("tcp://192.0.2.1:%d", version) }

func versionOf(nse *registry.NetworkServiceEndpoint) int {
	var version int
	if _, err := fmt.Sscanf(nse.GetUrl(), "tcp://192.0.2.1:%d", &version); err != nil {
		return -1
	}
	return version
}

// failed notes that a program's call which began at start failed, if it did.
func (h *history) failed(v verb, name string, start time.Duration, err error) {
	if err == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures = append(h.failures, &call{verb: v, name: name, start: start, end: h.now(), left: callTimeout, err: err})
}

// byName returns the calls about each NSE, in the order of their start.
func (h *history) byName() map[string][]*call {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[string][]*call)
	for _, c := range h.calls {
		all[c.name] = append(all[c.name], c)
	}
	for _, calls := range all {
		slices.SortFunc(calls, func(a, b *call) int { return int(a.start - b.start) })
	}
	return all
}

// recorder is the last element of a client before the wire.
type recorder struct {
	history *history
}

var _ registry.NetworkServiceEndpointRegistryClient = recorder{}

// begin notes the start of a call, and returns what notes its end.
func (r recorder) begin(ctx context.Context, v verb, name string, version int) func(version int, err error) {
	c := &call{verb: v, name: name, version: version, start: r.history.now()}
	if deadline, ok := ctx.Deadline(); ok {
		c.left = time.Until(deadline)
	}
	return func(version int, err error) {
		c.end, c.err = r.history.now(), err
		if version != 0 {
			c.version = version
		}
		c.abandoned = err != nil && ctx.Err() == context.Canceled
		r.history.mu.Lock()
		defer r.history.mu.Unlock()
		r.history.calls = append(r.history.calls, c)
	}
}

// Register records the call.
func (r recorder) Register(ctx context.Context, nse *registry.NetworkServiceEndpoint, opts ...grpc.CallOption) (*registry.NetworkServiceEndpoint, error) {
	done := r.begin(ctx, register, nse.GetName(), versionOf(nse))
	response, err := next.NetworkServiceEndpointRegistryClient(ctx).Register(ctx, nse, opts...)
	done(0, err)
	return response, err
}

// Unregister records the call.
func (r recorder) Unregister(ctx context.Context, nse *registry.NetworkServiceEndpoint, opts ...grpc.CallOption) (*empty.Empty, error) {
	done := r.begin(ctx, unregister, nse.GetName(), 0)
	response, err := next.NetworkServiceEndpointRegistryClient(ctx).Unregister(ctx, nse, opts...)
	done(0, err)
	return response, err
}

// Find records what is found by name, and what a watch over a network service tells.
func (r recorder) Find(ctx context.Context, query *registry.NetworkServiceEndpointQuery, opts ...grpc.CallOption) (registry.NetworkServiceEndpointRegistry_FindClient, error) {
	name := query.GetNetworkServiceEndpoint().GetName()
	switch {
	case query.GetWatch() && name != "":
		return next.NetworkServiceEndpointRegistryClient(ctx).Find(ctx, query, opts...)
	case query.GetWatch():
		return r.watch(ctx, query, opts...)
	case name == "":
		return next.NetworkServiceEndpointRegistryClient(ctx).Find(ctx, query, opts...)
	}
	done := r.begin(ctx, find, name, 0)
	stream, err := next.NetworkServiceEndpointRegistryClient(ctx).Find(ctx, query, opts...)
	if err != nil {
		done(0, err)
		return nil, err
	}
	read := &readStream{NetworkServiceEndpointRegistry_FindClient: stream}
	version := 0
	for {
		response, err := stream.Recv()
		if err != nil {
			if read.err = err; err == io.EOF { //nolint:errorlint // gRPC gives it as it is
				err = nil
			}
			done(version, err)
			return read, nil
		}
		version = versionOf(response.GetNetworkServiceEndpoint())
		read.responses = append(read.responses, response)
	}
}

// readStream is a stream that has been read already.
type readStream struct {
	registry.NetworkServiceEndpointRegistry_FindClient
	responses []*registry.NetworkServiceEndpointResponse
	err       error
}

// Recv returns the next response.
func (s *readStream) Recv() (*registry.NetworkServiceEndpointResponse, error) {
	if len(s.responses) == 0 {
		return nil, s.err
	}
	response := s.responses[0]
	s.responses = s.responses[1:]
	return response, nil
}

func (r recorder) watch(ctx context.Context, query *registry.NetworkServiceEndpointQuery, opts ...grpc.CallOption) (registry.NetworkServiceEndpointRegistry_FindClient, error) {
	stream, err := next.NetworkServiceEndpointRegistryClient(ctx).Find(ctx, query, opts...)
	if err != nil {
		return nil, err
	}
	return &watchStream{
		NetworkServiceEndpointRegistry_FindClient: stream,
		history: r.history,
		session: &session{service: strings.Join(query.GetNetworkServiceEndpoint().GetNetworkServiceNames(), ",")},
	}, nil
}

// watchStream notes what a watch tells. A session begins with the header: before it, nobody watches.
type watchStream struct {
	registry.NetworkServiceEndpointRegistry_FindClient
	history *history
	session *session
}

// Recv returns the next response.
func (s *watchStream) Recv() (*registry.NetworkServiceEndpointResponse, error) {
	if s.session.start == 0 {
		if _, err := s.Header(); err == nil {
			s.session.start = s.history.now()
		}
	}
	response, err := s.NetworkServiceEndpointRegistry_FindClient.Recv()
	if err != nil {
		s.session.end, s.session.err = s.history.now(), status.Convert(err).Err()
		if s.session.start != 0 {
			s.history.mu.Lock()
			s.history.sessions = append(s.history.sessions, s.session)
			s.history.mu.Unlock()
		}
		return nil, err
	}
	nse := response.GetNetworkServiceEndpoint()
	s.session.seen = append(s.session.seen, sighting{
		at: s.history.now(), name: nse.GetName(), version: versionOf(nse), deleted: response.GetDeleted(),
	})
	return response, nil
}
