// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// Source gives the members of a registry as whole snapshots.
type Source interface {
	// Run follows the source until ctx is done, and then returns nil, or until a fault that cannot heal, and then
	// returns it. It calls update with each new snapshot, from the goroutine that called Run, and never twice in a
	// row with equal snapshots. The first call comes as soon as the source has been read once, even if it is empty.
	// Snapshots are sorted by Name. The caller may keep them and must not change them. A Source runs once at a time.
	Run(ctx context.Context, update func([]shard.Member)) error
	// Describe names what is followed, for errors and logs, for example
	// `Service "nsm-system/registry-k8s" (port registry)`, `file /etc/registry-lb/members` or `static list`.
	Describe() string
	// Err is the reason why the source cannot be read at the moment, as one line for people; nil when it can be
	// read, and before the first attempt. The last snapshot stays good while Err is not nil. Safe for concurrent use.
	Err() error
}

// Options are what sources need from outside. The zero value is enough for [Static] and [File].
type Options struct {
	// Logger is told of changes in the state of the source, once per change; nil: nothing is logged.
	Logger *zap.Logger
	// Client reads EndpointSlices; needed for [Kubernetes] alone. It needs the verbs get, list and watch on
	// endpointslices.discovery.k8s.io in the namespace of the Service.
	Client kubernetes.Interface
	// Namespace is registry-lb's own, for a Spec without one.
	Namespace string
	// Clock is the real one if nil.
	Clock clock.WithTicker
}

// New returns the source that spec asks for. It reads nothing yet: a file or Service that does not exist is no error
// here. A spec that did not come from [ParseSpec], or a [Kubernetes] spec without client or namespace, is one.
func New(spec Spec, o Options) (Source, error) {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	switch spec.Scheme {
	case Static:
		if len(spec.Addrs) == 0 {
			return nil, errors.New("static list without addresses")
		}
		return newStaticSource(spec.Addrs), nil
	case File:
		if spec.Path == "" {
			return nil, errors.New("file source without a path")
		}
		return newFileSource(spec.Path, o), nil
	case Kubernetes:
		if spec.Service == "" {
			return nil, errors.New("k8s source without a Service name")
		}
		if spec.Namespace == "" {
			spec.Namespace = o.Namespace
		}
		if spec.Namespace == "" {
			return nil, fmt.Errorf("namespace of Service %q is not known: write k8s://NAMESPACE/%s, or set POD_NAMESPACE",
				spec.Service, spec.Service)
		}
		if o.Client == nil {
			return nil, fmt.Errorf("no Kubernetes client to follow Service %q with", spec.Service)
		}
		return newKubernetesSource(spec, o), nil
	default:
		return nil, fmt.Errorf("unknown kind of source %q, known are %s", spec.Scheme, knownSchemes)
	}
}
