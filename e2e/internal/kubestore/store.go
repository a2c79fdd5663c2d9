// SPDX-License-Identifier: Apache-2.0

package kubestore

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	v1 "github.com/networkservicemesh/sdk-k8s/pkg/tools/k8s/apis/networkservicemesh.io/v1"
	"github.com/networkservicemesh/sdk-k8s/pkg/tools/k8s/client/clientset/versioned"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Options are what a [Store] may be told. The zero value is good.
type Options struct {
	// WatchLimit bounds how long a watch lasts, whatever it asks for; 0 means no bound but its own. An API server has
	// such a bound too, of at least half an hour; a short one makes watches begin anew often.
	WatchLimit time.Duration
	// Clock is the time; nil means the real one.
	Clock clock.WithTicker
}

// Store holds NetworkServices and NetworkServiceEndpoints. It is safe for concurrent use.
type Store struct {
	options Options

	mu sync.Mutex
	// version is that of the last write to either collection.
	version   uint64
	endpoints *collection[*v1.NetworkServiceEndpoint]
	services  *collection[*v1.NetworkService]
}

// New returns an empty store.
func New(options Options) *Store {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	s := &Store{options: options}
	s.endpoints = newCollection(s, endpointKind())
	s.services = newCollection(s, serviceKind())
	return s
}

// Client returns a client as a registry replica has one. All clients see the same objects.
func (s *Store) Client() versioned.Interface {
	return client{store: s}
}

// EndWatches ends all watches that are open, as an API server does that restarts. Whoever watched begins anew and is
// sent everything once more.
func (s *Store) EndWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints.endWatches()
	s.services.endWatches()
}

// Watches returns how many watches are open.
func (s *Store) Watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.endpoints.watchers) + len(s.services.watchers)
}

// EndpointNames returns the names of all NetworkServiceEndpoints, sorted by namespace and name.
func (s *Store) EndpointNames() []string {
	objects, _ := s.endpoints.snapshot("")
	names := make([]string, 0, len(objects))
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	return names
}

// next returns the version of the next write. The store must be locked.
func (s *Store) next() uint64 {
	s.version++
	return s.version
}

func versionText(version uint64) string { return strconv.FormatUint(version, 10) }

// uid returns a unique identity for what was created at version, and suffix the end of a generated name.
func uid(version uint64) types.UID {
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", version))
}

func suffix(version uint64) string {
	return fmt.Sprintf("%05s", strconv.FormatUint(version, 36))
}
