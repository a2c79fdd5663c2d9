// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"google.golang.org/grpc/metadata"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
)

// errWrongMember says that a call about a living NSE reached a member that does not hold it.
var errWrongMember = errors.New("reached the wrong member")

// call prepares a call. received returns who received it, when it is over.
func (w *world) call(e *endpoint) (ctx context.Context, cancel context.CancelFunc, received func() []member.Life) {
	id := strconv.FormatInt(w.calls.Add(1), 10)
	ctx, cancel = context.WithTimeout(log.WithLog(context.Background(), log.Empty()), callTimeout)
	ctx = metadata.NewOutgoingContext(ctx, w.identity.Metadata())
	if e != nil {
		ctx = grpcmetadata.PathWithContext(ctx, e.path)
	}
	return member.Mark(ctx, id), cancel, func() []member.Life { return w.recorder.Take(id) }
}

// register makes e's client register, for the first time or again.
func (w *world) register(b *balancer, e *endpoint) error {
	ctx, cancel, received := w.call(e)
	defer cancel()
	resp, err := b.client.Register(ctx, e.request.Clone())
	lives := received()
	w.say("register %s through %s: received by %v, error %v", e.name, b.name, lives, err)
	if err != nil {
		return fmt.Errorf("register %s through %s: %w", e.name, b.name, err)
	}
	if err := w.reached(b, e, lives); err != nil {
		return fmt.Errorf("register %s through %s: %w", e.name, b.name, err)
	}
	holder := lives[len(lives)-1]
	if want := w.spiffeID(holder.Name); lastOf(resp) != want {
		return fmt.Errorf("register %s through %s: path_ids end with %q, and %v answered", e.name, b.name, lastOf(resp), holder)
	}
	e.answered(resp, holder, b.name)
	return nil
}

// unregister makes e's client unregister.
func (w *world) unregister(b *balancer, e *endpoint) error {
	ctx, cancel, received := w.call(e)
	defer cancel()
	_, err := b.client.Unregister(ctx, e.request.Clone())
	lives := received()
	w.say("unregister %s through %s: received by %v, error %v", e.name, b.name, lives, err)
	if err != nil {
		return fmt.Errorf("unregister %s through %s: %w", e.name, b.name, err)
	}
	if err := w.reached(b, e, lives); err != nil {
		return fmt.Errorf("unregister %s through %s: %w", e.name, b.name, err)
	}
	e.unregistered(b.name)
	return nil
}

// reached compares who received a call about e through b with who holds it.
func (w *world) reached(b *balancer, e *endpoint, lives []member.Life) error {
	if len(lives) == 0 {
		return errors.New("reached nobody, and succeeded")
	}
	for _, l := range lives {
		if e.holder != (member.Life{}) && b.knows(e.holder) && l != e.holder {
			return fmt.Errorf("%w: %v holds it, and %v received the call", errWrongMember, e.holder, lives)
		}
		if !b.knows(l) {
			return fmt.Errorf("%w: %v received the call after it had left", errWrongMember, l)
		}
	}
	return nil
}

// findByName looks for e through b.
func (w *world) findByName(b *balancer, e *endpoint) error {
	find := func() error {
		found, lives, err := w.find(b, &registry.NetworkServiceEndpoint{Name: e.name})
		w.say("find %s through %s: received by %v, found %d, error %v", e.name, b.name, lives, len(found), err)
		switch {
		case err != nil:
			return err
		case len(found) == 0 && w.partitioned() && !b.knows(e.holder):
			return nil // its member has left, as this balancer sees it, and nobody else has the NSE
		case len(found) > 1, len(found) == 0 && e.there(), len(found) == 1 && !e.there() && !w.remembered():
			return fmt.Errorf("found %v, registered %v, lost %v", namesOf(found), e.registered, e.lost)
		case len(found) == 1 && e.holder != (member.Life{}) && lastOf(found[0]) != w.spiffeID(e.holder.Name):
			return fmt.Errorf("found %v, and %v holds it", found[0], e.holder)
		}
		if e.registered {
			return w.reached(b, e, lives)
		}
		return nil
	}
	var err error
	if e.fresh && e.teller != b.name {
		err = eventually(find) // the news travel from one balancer to the other
	} else {
		err = find()
	}
	if err != nil {
		return fmt.Errorf("find %s through %s: %w", e.name, b.name, err)
	}
	return nil
}

// remembered says whether a member that is about to leave may remember what others have forgotten.
func (w *world) remembered() bool { return w.partitioned() && len(w.leaving) > 0 }

// findAll compares what is found through b with what must be there: of one network service, or of all if it is empty.
func (w *world) findAll(b *balancer, service string) error {
	query := new(registry.NetworkServiceEndpoint)
	if service != "" {
		query.NetworkServiceNames = []string{service}
	}
	found, _, err := w.find(b, query)
	if err != nil {
		return fmt.Errorf("find network service %q through %s: %w", service, b.name, err)
	}
	if got, want := namesOf(found), w.there(service); !slices.Equal(got, want) {
		return fmt.Errorf("find network service %q through %s: found %v, want %v", service, b.name, got, want)
	}
	return nil
}

// there returns the sorted names of the NSEs that must be found.
func (w *world) there(service string) []string {
	names := []string{}
	for _, e := range w.endpoints {
		if e.there() && (service == "" || e.service == service) {
			names = append(names, e.name)
		}
	}
	slices.Sort(names)
	return names
}

func (w *world) find(b *balancer, query *registry.NetworkServiceEndpoint) (found []*registry.NetworkServiceEndpoint, lives []member.Life, err error) {
	ctx, cancel, received := w.call(nil)
	defer cancel()
	stream, err := b.client.Find(ctx, &registry.NetworkServiceEndpointQuery{NetworkServiceEndpoint: query})
	if err != nil {
		return nil, received(), err
	}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return found, received(), nil
		}
		if err != nil {
			return found, received(), err
		}
		found = append(found, resp.GetNetworkServiceEndpoint())
	}
}
