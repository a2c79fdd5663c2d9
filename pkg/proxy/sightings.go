// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"sync"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"
)

// sightings is what a watching client knows, as far as it is needed to go on at another member as if nothing had
// happened: what it has been sent already is not sent again, and what it knows and nobody has any more is reported
// as deleted.
type sightings struct {
	mu          sync.Mutex
	byName      map[string]sighting
	comparisons map[*comparison]struct{}
	feeds       uint64
}

// comparison is a listing that is under way. What a stream says meanwhile is newer.
type comparison struct {
	heard map[string]struct{}
}

// sighting is what was last sent about one name.
type sighting struct {
	// sum stands for the content.
	sum uint64
	// owner is whose word counts: the name of a member of a partitioned store, empty for a shared one.
	owner string
	// feed is the number of the stream on which the name was last seen.
	feed uint64
}

func newSightings() *sightings {
	return &sightings{byName: make(map[string]sighting), comparisons: make(map[*comparison]struct{})}
}

// newFeed returns the number of a new stream, and whether names of owner have been seen on earlier ones.
func (s *sightings) newFeed(owner string) (feed uint64, before bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feeds++
	for _, known := range s.byName {
		if known.owner == owner {
			return s.feeds, true
		}
	}
	return s.feeds, false
}

// see takes in a response and calls send if it is news for the client. Calls of send have the order of the news.
func (s *sightings) see(name string, r response, owner string, feed uint64, send func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.comparisons {
		c.heard[name] = struct{}{}
	}
	known, ok := s.byName[name]
	if r.GetDeleted() {
		// A member's word that it no longer has what another one owns says nothing.
		if ok && known.owner == owner {
			delete(s.byName, name)
			send()
		}
		return
	}
	now := sighting{sum: contentSum(r), owner: owner, feed: feed}
	s.byName[name] = now
	if !ok || known.sum != now.sum {
		send()
	}
}

// vanish forgets the names of owner that were not seen on feed or a later one, and calls send for each.
func (s *sightings) vanish(owner string, feed uint64, send func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, known := range s.byName {
		if known.owner == owner && known.feed < feed {
			delete(s.byName, name)
			send(name)
		}
	}
}

// compare begins a comparison with a listing; end it with settle or dismiss.
func (s *sightings) compare() *comparison {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &comparison{heard: make(map[string]struct{})}
	s.comparisons[c] = struct{}{}
	return c
}

// dismiss ends a comparison whose listing failed.
func (s *sightings) dismiss(c *comparison) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.comparisons, c)
}

// settle ends a comparison with what owner lists. Names that no stream has told of since the comparison began are
// reported if the listing has them as the client does not know them, and as deleted if it does not have them.
//
// Only the one owner of a shared store is believed about names that are news: a member of a partitioned store may list
// what has gone elsewhere.
func (s *sightings) settle(c *comparison, owner string, feed uint64, listed map[string]response, send, sendDeleted func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.comparisons, c)
	for name, known := range s.byName {
		_, heard := c.heard[name]
		if _, ok := listed[name]; ok || heard || known.owner != owner {
			continue
		}
		delete(s.byName, name)
		sendDeleted(name)
	}
	if owner != sharedOwner {
		return
	}
	for name, r := range listed {
		if _, heard := c.heard[name]; heard {
			continue
		}
		now := sighting{sum: contentSum(r), owner: owner, feed: feed}
		if known, ok := s.byName[name]; !ok || known.sum != now.sum {
			s.byName[name] = now
			send(name)
		}
	}
}

func contentSum(r response) uint64 {
	// Fails for invalid UTF-8 only, and then gives what it has.
	content, _ := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	return xxhash.Sum64(content)
}
