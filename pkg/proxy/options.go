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
	// DialOptions are added to those of each connection to a member; transport credentials must be among them.
	DialOptions []grpc.DialOption
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
