// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"
)

// Store says what one member of the registry knows.
type Store string

const (
	// SharedStore is a registry whose members all see every NSE, as registry-k8s does.
	SharedStore Store = "shared"
	// PartitionedStore is a registry whose members see only what was registered with them, as registry-memory does.
	PartitionedStore Store = "partitioned"
)

// DefaultNoBackendWait is how long a call waits for a member to come when none can be reached. It is longer
// than a registry container's restart and shorter than the 15 s after which NSM clients give up.
const DefaultNoBackendWait = 5 * time.Second

// DefaultListingInterval is how often the directory is compared with a full listing, because the watch of a registry can
// lose deletions. What such a loss costs is memory, and that a name that is registered anew goes to its old member; so
// it need not be often.
const DefaultListingInterval = 2 * time.Minute

// DefaultMaxTokenLifetime is that of registry-k8s.
const DefaultMaxTokenLifetime = 10 * time.Minute

// Options are what a [Proxy] needs. The zero value of each field has the meaning that its comment gives.
type Options struct {
	// Backends names what the members come from, for error texts, e.g. `Service "nsm-system/registry-k8s"`.
	Backends string
	// Store is what one member knows; empty means [SharedStore].
	Store Store
	// NoBackendWait bounds how long a call waits when no member can be reached; 0 means
	// [DefaultNoBackendWait], negative not to wait at all.
	NoBackendWait time.Duration
	// JoinDelay is how long a newcomer is known before it is given keys that nobody holds, so that all registry-lb
	// replicas know it by then; 0 means at once.
	JoinDelay time.Duration
	// ProbeInterval is how often a member is asked for its health, ProbeTimeout how long its answer may take; 0 means
	// [DefaultProbeInterval] and [DefaultProbeTimeout]. A negative interval means never: then a member that hangs is
	// found out by its callers' deadlines only.
	ProbeInterval, ProbeTimeout time.Duration
	// ListingInterval is how often the directory of holders is compared with a full listing, give or take a quarter of
	// it; 0 means [DefaultListingInterval]. Negative means that no directory is kept: then routing is by path_ids and
	// the ring alone, and a newcomer takes over its share of the keys that live.
	ListingInterval time.Duration
	// EmptyGrace is how long the last members are kept, while they answer probes, when all vanish at once; 0 means
	// not at all.
	EmptyGrace time.Duration
	// MaxTokenLifetime is how long an NSE that is registered without an expiration time may live without a refresh;
	// 0 means [DefaultMaxTokenLifetime].
	MaxTokenLifetime time.Duration
	// CallTimeout bounds a call that has no deadline, without members being told; 0 means [DefaultCallTimeout].
	CallTimeout time.Duration
	// MaxMembers bounds the members: of more, those with the smallest names are used; 0 means [DefaultMaxMembers].
	MaxMembers int
	// MaxCalls bounds the calls in flight, watches left out; 0 means [DefaultMaxCalls].
	MaxCalls int64
	// MaxMemberCalls bounds those at one member; 0 means [DefaultMaxMemberCalls].
	MaxMemberCalls int64
	// DialOptions are added to those of each connection to a member; transport credentials must be among them.
	DialOptions []grpc.DialOption
	// Hop makes the proxy a hop in the NSM path, for connections with mutual TLS; nil means that calls and metadata pass
	// unchanged.
	Hop *Hop
	// Log gets one line for each change of members; nil means no log.
	Log *zap.Logger
	// Registerer is where metrics are registered; nil means that they are not exported.
	Registerer prometheus.Registerer
	// Clock is the time; nil means the real one.
	Clock clock.WithTicker
	// Rand gives numbers in [0, 1) to spread things with; nil means math/rand/v2. Called concurrently.
	Rand func() float64
}

func (o *Options) setDefaults() error {
	switch o.Store {
	case "":
		o.Store = SharedStore
	case SharedStore, PartitionedStore:
	default:
		return fmt.Errorf("unknown store %q: it is %q or %q", o.Store, SharedStore, PartitionedStore)
	}
	switch {
	case o.NoBackendWait == 0:
		o.NoBackendWait = DefaultNoBackendWait
	case o.NoBackendWait < 0:
		o.NoBackendWait = 0
	}
	setDefault(&o.ProbeInterval, DefaultProbeInterval)
	setDefault(&o.ListingInterval, DefaultListingInterval)
	setDefault(&o.ProbeTimeout, DefaultProbeTimeout)
	setDefault(&o.CallTimeout, DefaultCallTimeout)
	setDefault(&o.MaxTokenLifetime, DefaultMaxTokenLifetime)
	setDefault(&o.MaxMembers, DefaultMaxMembers)
	setDefault(&o.MaxCalls, DefaultMaxCalls)
	setDefault(&o.MaxMemberCalls, DefaultMaxMemberCalls)
	if o.Backends == "" {
		o.Backends = "the registry"
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return nil
}

func setDefault[T time.Duration | int | int64](value *T, otherwise T) {
	if *value == 0 {
		*value = otherwise
	}
}
