// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/proto"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	// MaxMessageSize is the largest message that is passed on in either direction, in bytes: four times
	// gRPC's default, because a registry's own limit should be met first.
	MaxMessageSize = 16 << 20
	// additions is by how many bytes a message may grow on its way, by an expiration time for example.
	additions = 4 << 10
	// MaxHeaderListSize is how large the metadata of a call may be in either direction, in bytes as HTTP/2
	// counts them: NSM paths carry a signed token for each hop, and 64 KiB of values must pass with their
	// names and HTTP/2's 32 bytes for each.
	MaxHeaderListSize = 256 << 10

	// callConns is the number of connections to one member for unary calls and lists. Calls of one key use
	// one connection; several keep one large answer from delaying all other keys.
	callConns = 2
	// watchConns is the number of connections to one member for watches, which are many, idle, and must not
	// take the flow-control window of unary calls.
	watchConns = 2

	// connectTimeout bounds one attempt to connect, so that an address where nobody answers costs a call
	// this long and no more.
	connectTimeout = 2 * time.Second
	// reconnectMaxDelay is the longest pause between attempts to connect: a member that came back is in use
	// again after it.
	reconnectMaxDelay = time.Second

	// leaveGrace is how long connections to a member that left stay open for the calls in flight. A member
	// that terminates in good order answers them; from one that is gone they come back as lost anyway.
	leaveGrace = 5 * time.Second
)

// member is a registry replica that calls may go to: one life of it, with the connections that end with it.
type member struct {
	shard.Member

	// calls are the connections for unary calls and lists, watches those for watches.
	calls, watches current
	// aged holds a value when the connections shall be replaced by new ones.
	aged chan struct{}
	// inFlight bounds and counts the calls that wait for the member's answer.
	inFlight gate
	// doubted holds a value when a call found the member unreachable, so that it is probed at once.
	doubted chan struct{}
	// id is the member's SPIFFE ID, nil while it is not known. identified is closed when the member has been asked for
	// it; introduced says so to its prober.
	id         atomic.Pointer[string]
	identified chan struct{}
	introduced bool
	// suspect members do not answer probes; unlisted ones are no longer named by their source and kept for a while
	// because all members vanished at once; reason says why. They belong to who holds the proxy's lock of members.
	suspect, unlisted bool
	reason            string
	// joined members have their place in the ring; failed ones have been replaced because they did not answer. They
	// belong to who holds the lock, too.
	joined, failed bool
	// life is done when the member is no longer one of the set. closed is closed when its connections are.
	life   context.Context //nolint:containedctx // it is the member's own life, not that of a call
	end    context.CancelFunc
	closed chan struct{}
	once   sync.Once
}

// newMember prepares connections to m, for so many calls at a time, and starts to connect; it does not wait.
func newMember(m shard.Member, maxCalls int64, dialOptions []grpc.DialOption) (*member, error) {
	if len(m.Addrs) == 0 {
		return nil, fmt.Errorf("member %q has no address", m.Name)
	}
	result := &member{
		Member:     m,
		inFlight:   gate{limit: maxCalls},
		doubted:    make(chan struct{}, 1),
		aged:       make(chan struct{}, 1),
		identified: make(chan struct{}),
		closed:     make(chan struct{}),
	}
	calls, watches, err := result.newConns(dialOptions)
	if err != nil {
		return nil, err
	}
	result.calls.Store(calls)
	result.watches.Store(watches)
	result.life, result.end = context.WithCancel(context.Background())
	calls.list[0].Connect()
	return result, nil
}

// newConns prepares a set of connections.
func (m *member) newConns(dialOptions []grpc.DialOption) (calls, watches *conns, err error) {
	if calls, err = newConns(&m.Member, callConns, dialOptions); err != nil {
		return nil, nil, err
	}
	if watches, err = newConns(&m.Member, watchConns, dialOptions); err != nil {
		calls.close()
		return nil, nil, err
	}
	return calls, watches, nil
}

func dial(addrs []string, dialOptions []grpc.DialOption) (*grpc.ClientConn, error) {
	// A resolver of its own hands gRPC all addresses of the member at once, so that it tries those of both
	// families; and host names are looked up anew at each attempt to connect.
	addresses := manual.NewBuilderWithScheme("member")
	endpoints := make([]resolver.Endpoint, 0, len(addrs))
	for _, addr := range addrs {
		endpoints = append(endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}})
	}
	addresses.InitialState(resolver.State{Endpoints: endpoints})

	options := append([]grpc.DialOption{
		grpc.WithResolvers(addresses),
		// Members are pods: an HTTP proxy of the environment is not on the way to them.
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		// Retries are this package's affair.
		grpc.WithDisableRetry(),
		grpc.WithStatsHandler(endings{}),
		grpc.WithIdleTimeout(0),
		grpc.WithMaxHeaderListSize(MaxHeaderListSize),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(MaxMessageSize),
			grpc.MaxCallSendMsgSize(MaxMessageSize+additions),
		),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay:  50 * time.Millisecond,
				Multiplier: 2,
				Jitter:     0.2,
				MaxDelay:   reconnectMaxDelay,
			},
			MinConnectTimeout: connectTimeout,
		}),
	}, dialOptions...)
	return grpc.NewClient("member:///"+addrs[0], options...)
}

// is says whether m is the same life at the same place as described.
func (m *member) is(described shard.Member) bool {
	return m.Name == described.Name && m.UID == described.UID && slices.Equal(m.Addrs, described.Addrs)
}

// hasLeft says whether the member is no longer one of the set.
func (m *member) hasLeft() bool { return m.life.Err() != nil }

// reachable is false while the connection for key is known to be broken.
func (m *member) reachable(key shard.Key) bool {
	return m.calls.Load().of(key).GetState() != connectivity.TransientFailure
}

// close ends all connections, and with them all calls in flight.
func (m *member) close() {
	m.end()
	m.once.Do(func() { close(m.closed) })
	m.calls.Load().close()
	m.watches.Load().close()
}

// doubt has the member probed at once.
func (m *member) doubt() {
	select {
	case m.doubted <- struct{}{}:
	default:
	}
}

// invoke makes one unary call.
func invoke(ctx context.Context, conn *grpc.ClientConn, method string, req, resp proto.Message, opts ...grpc.CallOption) answer {
	var a answer
	var e ending
	a.err = conn.Invoke(e.observed(ctx), method, req, resp, append(opts, grpc.Header(&a.header), grpc.Trailer(&a.trailer))...)
	a.complete = e.complete.Load()
	return a
}

// memberStream is a stream on which a member answers.
type memberStream struct {
	grpc.ClientStream

	ending *ending
}

// open opens a stream on which a member answers query. The stream ends when ctx does.
func open(ctx context.Context, conn *grpc.ClientConn, method string, query proto.Message) (*memberStream, error) {
	e := new(ending)
	stream, err := conn.NewStream(e.observed(ctx), &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return nil, err
	}
	switch err := stream.SendMsg(query); {
	case err == nil:
		_ = stream.CloseSend() // never fails once the stream is open
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	// After io.EOF the status is what the first receive gives.
	return &memberStream{ClientStream: stream, ending: e}, nil
}
