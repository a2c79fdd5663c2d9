// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// DefaultCallTimeout is how long a call may take whose client has set no deadline. NSM's own clients give up after
	// 15 seconds at the latest.
	DefaultCallTimeout = 15 * time.Second
	// DefaultMaxMembers bounds the members: each costs connections and probes, and a list of more is a mistake.
	DefaultMaxMembers = 4096
	// DefaultMaxCalls bounds the calls in flight. At some milliseconds a call this is far more than the members
	// behind one registry-lb can answer; at 20 KiB a call it is 320 MiB of memory.
	DefaultMaxCalls = 16384
	// DefaultMaxMemberCalls bounds the calls in flight at one member, so that one that hangs does not use up the
	// places of all others in the seconds until it is found out.
	DefaultMaxMemberCalls = 4096
	// overloadDelay is when a refused client may try again.
	overloadDelay = 500 * time.Millisecond
)

// gate bounds how many calls are in flight. What does not fit is refused at once: a queue would only make the wait of
// all longer, and hide the overload from the clients.
type gate struct {
	inFlight atomic.Int64
	limit    int64
}

// enter is false if there is no room.
func (g *gate) enter() bool {
	if g.inFlight.Add(1) > g.limit {
		g.inFlight.Add(-1)
		return false
	}
	return true
}

func (g *gate) leave() { g.inFlight.Add(-1) }

// errOverloaded refuses a call and says when to come back (google.rpc.RetryInfo).
func errOverloaded(what string) error {
	s, err := status.Newf(codes.ResourceExhausted, "registry-lb: too many calls in flight %s, try again in %v", what, overloadDelay).
		WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(overloadDelay)})
	if err != nil {
		return status.Errorf(codes.ResourceExhausted, "registry-lb: too many calls in flight %s", what)
	}
	return s.Err()
}

const (
	// budgetMax is how many attempts beyond the first round can be paid for at once, after quiet times.
	budgetMax = 1000
	// budgetShare is how many such attempts one call that was answered pays for.
	budgetShare = 0.2
	// budgetScale makes whole numbers of shares.
	budgetScale = 1000
)

// budget keeps an outage from multiplying the load: going to the next member once is free, for that is the point of
// having several, but what is tried after everybody has been asked is paid for by calls that were answered (as in
// gRFC A6, "Throttling Retry Attempts"). A call that can't pay asks one member now and then, until the members change:
// as opposed to gRPC's, it does not fail while there is time.
type budget struct {
	tokens atomic.Int64
}

func newBudget() *budget {
	b := new(budget)
	b.tokens.Store(budgetMax * budgetScale)
	return b
}

// earn pays in for a call that was answered.
func (b *budget) earn() {
	// The bound is soft: a few concurrent calls may exceed it by their own shares.
	if b.tokens.Load() < budgetMax*budgetScale {
		b.tokens.Add(budgetShare * budgetScale)
	}
}

// spend pays for n attempts. It is false if there is not enough left.
func (b *budget) spend(n int) bool {
	price := int64(n) * budgetScale
	if b.tokens.Add(-price) < 0 {
		b.tokens.Add(price)
		return false
	}
	return true
}
