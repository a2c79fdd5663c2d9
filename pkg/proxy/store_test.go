// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// store is what members know: one for all members of a shared store, one each of a partitioned one.
type store struct {
	mu       sync.Mutex
	items    map[shard.Key]proto.Message
	watchers map[*tail]struct{}
}

func newStore() *store {
	return &store{items: make(map[shard.Key]proto.Message), watchers: make(map[*tail]struct{})}
}

// tail is what one watcher has still to be sent. It has no bound, so that a store never waits for a watcher.
type tail struct {
	flavour   flavour
	responses []proto.Message
	more      chan struct{}
}

func (t *tail) add(r proto.Message) {
	t.responses = append(t.responses, r)
	select {
	case t.more <- struct{}{}:
	default:
	}
}

// put registers item.
func (s *store) put(f flavour, item proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[f.key(nameOf(item))] = item
	s.notify(f, item, false)
}

// remove unregisters name.
func (s *store) remove(f flavour, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	item, ok := s.items[f.key(name)]
	if !ok {
		return
	}
	delete(s.items, f.key(name))
	s.notify(f, item, true)
}

// notify sends an event to who watches. The caller holds the lock.
func (s *store) notify(f flavour, item proto.Message, deleted bool) {
	for w := range s.watchers {
		if w.flavour == f {
			w.add(f.response(item, deleted))
		}
	}
}

// all are the items of one service, sorted by name. The caller holds the lock.
func (s *store) all(f flavour) []proto.Message {
	names := make([]string, 0, len(s.items))
	for key := range s.items {
		if key.Space == f.space {
			names = append(names, key.Name)
		}
	}
	slices.Sort(names)
	items := make([]proto.Message, 0, len(names))
	for _, name := range names {
		items = append(items, s.items[f.key(name)])
	}
	return items
}

// watching returns the number of watches that are open.
func (s *store) watching() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers)
}

// script answers as a registry with this store does.
func (s *store) script(c *call) error {
	switch c.method {
	case "Register":
		s.put(c.flavour, c.request)
		return c.SendMsg(c.request)
	case "Unregister":
		s.remove(c.flavour, c.name())
		return c.SendMsg(new(emptypb.Empty))
	}
	t := &tail{flavour: c.flavour, more: make(chan struct{}, 1)}
	s.mu.Lock()
	for _, item := range s.all(c.flavour) {
		t.add(c.flavour.response(item, false))
	}
	if c.isWatch() {
		s.watchers[t] = struct{}{}
	}
	s.mu.Unlock()
	if !c.isWatch() {
		return s.send(c, t)
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, t)
	}()
	if err := c.SendHeader(nil); err != nil {
		return err
	}
	for {
		select {
		case <-c.Context().Done():
			return c.untilDone()
		case <-t.more:
			if err := s.send(c, t); err != nil {
				return err
			}
		}
	}
}

func (s *store) send(c *call, t *tail) error {
	s.mu.Lock()
	responses := t.responses
	t.responses = nil
	s.mu.Unlock()
	for _, r := range responses {
		if c.name() != "" && c.name() != nameOf(r) {
			continue
		}
		if err := c.SendMsg(r); err != nil {
			return err
		}
	}
	return nil
}

// watcher reads a watch on its client's side.
type watcher struct {
	*found
	events chan proto.Message
	// ended is why the watch ended.
	ended chan error
}

// watch opens a watch and reads it until it ends.
func (f *front) watch(tb testing.TB, fl flavour, name string) *watcher {
	tb.Helper()
	s, err := fl.find(tb.Context(), f.cc, fl.query(name, true))
	require.NoError(tb, err)
	w := &watcher{found: s, events: make(chan proto.Message, 10_000), ended: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			r, err := s.recv()
			if err != nil {
				w.ended <- err
				return
			}
			w.events <- r
		}
	}()
	tb.Cleanup(func() { <-done })
	return w
}

// next is the next event as text: "name" or "-name" for one that is deleted, with "=content" if there is any.
func (w *watcher) next(tb testing.TB) string {
	tb.Helper()
	return eventText(await(tb, w.events, "an event"))
}

func eventText(r proto.Message) string {
	text := nameOf(r)
	if isDeleted(r) {
		return "-" + text
	}
	if content := contentOf(r); content != "" {
		text += "=" + content
	}
	return text
}

// nextSorted are the next n events, sorted.
func (w *watcher) nextSorted(tb testing.TB, n int) []string {
	tb.Helper()
	events := make([]string, 0, n)
	for range n {
		events = append(events, w.next(tb))
	}
	slices.Sort(events)
	return events
}
