// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"sync"

	"google.golang.org/grpc/metadata"
)

// callKey is the metadata key of a call's identity.
const callKey = "e2e-call"

// Life is one life of a replica.
type Life struct {
	// Name is that of the replica, UID that of its life.
	Name, UID string
}

// String returns the life as it is shown in failures.
func (l Life) String() string { return l.Name + " (" + l.UID + ")" }

// Recorder notes which members receive which calls. Only calls that carry an identity ([Mark]) are noted, so that what
// others ask on their own does not disturb. It is safe for concurrent use; a nil recorder notes nothing.
type Recorder struct {
	mu     sync.Mutex
	byCall map[string][]Life
}

// NewRecorder returns a recorder without notes.
func NewRecorder() *Recorder {
	return &Recorder{byCall: make(map[string][]Life)}
}

// Mark returns a context for one call that the recorder shall note under call.
func Mark(ctx context.Context, call string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, callKey, call)
}

// Take returns who received a call, in order, and forgets it.
func (r *Recorder) Take(call string) []Life {
	r.mu.Lock()
	defer r.mu.Unlock()
	lives := r.byCall[call]
	delete(r.byCall, call)
	return lives
}

func (r *Recorder) note(ctx context.Context, l Life) {
	if r == nil {
		return
	}
	md, _ := metadata.FromIncomingContext(ctx)
	calls := md.Get(callKey)
	if len(calls) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byCall[calls[0]] = append(r.byCall[calls[0]], l)
}
