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
	mu     sync.Mutex
	byName map[string]sighting
	feeds  uint64
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
	return &sightings{byName: make(map[string]sighting)}
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

// vanish forgets the names of owner that were not seen on feed or a later one and are not in listed, and calls send
// for each.
func (s *sightings) vanish(owner string, feed uint64, listed map[string]struct{}, send func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, known := range s.byName {
		if known.owner != owner || known.feed >= feed {
			continue
		}
		if _, ok := listed[name]; !ok {
			delete(s.byName, name)
			send(name)
		}
	}
}

func contentSum(r response) uint64 {
	// Fails for invalid UTF-8 only, and then gives what it has.
	content, _ := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	return xxhash.Sum64(content)
}
