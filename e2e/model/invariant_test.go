// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/networkservicemesh/registry-lb/pkg/shard"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
)

// check compares the system with the model, as far as that needs no call about a name.
func (w *world) check() error {
	for _, e := range w.endpoints {
		maps.DeleteFunc(e.claims, func(l member.Life, _ struct{}) bool { return w.view[l.Name].UID != l.UID })
		if len(e.claims) > 1 {
			return fmt.Errorf("%w: %s is held by %v, of whom nobody has left", errWrongMember, e.name, slices.Collect(maps.Keys(e.claims)))
		}
	}
	if !w.partitioned() {
		if got, want := w.kube.EndpointNames(), w.there(""); !slices.Equal(got, want) {
			return fmt.Errorf("in the store are %v, want %v", got, want)
		}
	}
	for _, b := range w.balancers {
		for _, e := range w.endpoints {
			if e.fresh || e.holder == (member.Life{}) || !b.knows(e.holder) {
				continue
			}
			if at, reason := b.locate(e.name); at != e.holder.Name {
				return fmt.Errorf("%w: %v holds %s, and %s sends calls about it to %s, because of the %s",
					errWrongMember, e.holder, e.name, b.name, at, reason)
			}
		}
	}
	return nil
}

// settle waits until all balancers have heard all news.
func (w *world) settle() error {
	for _, e := range w.endpoints {
		if !e.fresh {
			continue
		}
		for _, b := range w.balancers {
			if !b.knows(e.holder) {
				continue
			}
			if err := eventually(func() error { return w.heard(b, e) }); err != nil {
				return err
			}
		}
		e.fresh = false
		w.say("all balancers know about %s", e.name)
	}
	return nil
}

// heard says what a balancer has not heard about e. It may well not have heard that e is unregistered: events that it
// was get lost, and what it thinks then does no harm, because a new registration anywhere is news again.
func (w *world) heard(b *balancer, e *endpoint) error {
	if e.holder == (member.Life{}) {
		return nil
	}
	at, reason := b.locate(e.name)
	if at != e.holder.Name || w.id == "" && reason != shard.ReasonHolder {
		return fmt.Errorf("%w: %v holds %s, and %s sends calls about it to %s, because of the %s",
			errWrongMember, e.holder, e.name, b.name, at, reason)
	}
	return nil
}

// audit asks every balancer for every NSE.
func (w *world) audit() error {
	for _, b := range w.balancers {
		for _, e := range w.endpoints {
			if err := w.findByName(b, e); err != nil {
				return err
			}
		}
		if err := w.findAll(b, ""); err != nil {
			return err
		}
	}
	return nil
}
