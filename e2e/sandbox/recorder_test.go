// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	// passedKey is the metadata that a call gets where registry-lb takes it.
	passedKey = "e2e-passed"
	// ownKey is the metadata of calls that registry-lb makes for itself.
	ownKey = "registry-lb-purpose"
)

// recorder notes which member is asked to register and to unregister what, and what must not be. It is safe for
// concurrent use.
type recorder struct {
	mu sync.Mutex
	// finds counts the Finds that reached members.
	finds int
	// registers are the members that were asked to register a key, in order.
	registers map[shard.Key][]member.Life
	// holders are those that hold it now.
	holders map[shard.Key]member.Life
	// left are the lives that have ended or are to get no calls any more.
	left map[member.Life]bool
	// wrong is what must not be.
	wrong []string
}

func newRecorder() *recorder {
	return &recorder{
		registers: make(map[shard.Key][]member.Life),
		holders:   make(map[shard.Key]member.Life),
		left:      make(map[member.Life]bool),
	}
}

// passed returns the context of a call that registry-lb takes.
func (r *recorder) passed(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	md = md.Copy()
	if md == nil {
		md = make(metadata.MD)
	}
	md.Set(passedKey, "yes")
	return metadata.NewIncomingContext(ctx, md)
}

// clients says whether a call that reached l is one of a client, and notes if it got there past registry-lb.
func (r *recorder) clients(ctx context.Context, l member.Life, what string) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	if len(md.Get(ownKey)) > 0 {
		return false
	}
	if len(md.Get(passedKey)) != 1 {
		r.wrong = append(r.wrong, fmt.Sprintf("%s reached %v past registry-lb", what, l))
	}
	return true
}

func (r *recorder) register(ctx context.Context, l member.Life, key shard.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.clients(ctx, l, "Register of "+key.Name) {
		return
	}
	r.place(l, key, "registered")
	r.registers[key] = append(r.registers[key], l)
	r.holders[key] = l
}

func (r *recorder) unregister(ctx context.Context, l member.Life, key shard.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.clients(ctx, l, "Unregister of "+key.Name) {
		return
	}
	r.place(l, key, "unregistered")
	delete(r.holders, key)
}

// place notes if a key is somewhere else than at its living member.
func (r *recorder) place(l member.Life, key shard.Key, done string) {
	if holder, ok := r.holders[key]; ok && holder != l && !r.left[holder] {
		r.wrong = append(r.wrong, fmt.Sprintf("%s was %s at %v, but %v holds it and lives", key.Name, done, l, holder))
	}
}

func (r *recorder) find(ctx context.Context, l member.Life) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clients(ctx, l, "Find") {
		r.finds++
	}
}

// leaves notes that l is about to end or to get no calls any more.
func (r *recorder) leaves(l member.Life) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[l] = true
}

// registersOf returns the names of the members that were asked to register an NSE, in order.
func (r *recorder) registersOf(nse string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lives := r.registers[shard.NSEKey(nse)]
	names := make([]string, 0, len(lives))
	for _, l := range lives {
		names = append(names, l.Name)
	}
	return names
}

// membersAsked returns the names of the members that were asked to register any NSE, sorted.
func (r *recorder) membersAsked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make(map[string]struct{})
	for key, lives := range r.registers {
		if key.Space != shard.NSE {
			continue
		}
		for _, l := range lives {
			names[l.Name] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// verify fails the test if something was noted that must not be, or if nothing was noted that must be.
func (r *recorder) verify(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	wrong, finds := r.wrong, r.finds
	nses := 0
	for key := range r.registers {
		if key.Space == shard.NSE {
			nses++
		}
	}
	r.mu.Unlock()
	require.Empty(t, wrong)
	require.Positive(t, finds+nses, "no call reached a member")
	if nses > 1 {
		require.Greater(t, len(r.membersAsked()), 1, "%d NSEs were registered, all at one member", nses)
	}
}
