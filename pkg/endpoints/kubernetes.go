// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	// sliceQuiet is how long the slices must be at rest: the controller writes the slices of both families, and the
	// old and the new slice of a moved endpoint, within a few milliseconds.
	sliceQuiet = 10 * time.Millisecond
	// sliceLimit is how long a change waits at most. It leaves half of the 100 ms that a change may take to the merge
	// and to a busy machine.
	sliceLimit = 50 * time.Millisecond
	// maxLogged bounds the log lines about unusable endpoints that one snapshot can cause.
	maxLogged = 10
)

// kubernetesSource follows the EndpointSlices of one Service with an informer: it lists once, watches, and lists
// again by itself when a watch is lost, with growing pauses.
type kubernetesSource struct {
	client    kubernetes.Interface
	namespace string
	service   string
	port      Port
	clock     clock.Clock
	logger    *zap.Logger

	api   *fault // whether the slices can be read
	ports *fault // whether the port can be found in them
}

func newKubernetesSource(spec Spec, o Options) *kubernetesSource {
	s := &kubernetesSource{
		client:    o.Client,
		namespace: spec.Namespace,
		service:   spec.Service,
		port:      spec.Port,
		clock:     o.Clock,
	}
	s.logger = o.Logger.With(zap.String("source", s.Describe()))
	s.api = newFault(s.logger)
	s.ports = newFault(s.logger)
	return s
}

func (s *kubernetesSource) Describe() string {
	name := s.namespace + "/" + s.service
	if s.port == (Port{}) {
		return fmt.Sprintf("Service %q", name)
	}
	return fmt.Sprintf("Service %q (port %s)", name, s.port)
}

func (s *kubernetesSource) Err() error {
	if err := s.api.get(); err != nil {
		return err
	}
	return s.ports.get()
}

func (s *kubernetesSource) Run(ctx context.Context, update func([]shard.Member)) error {
	informer := s.newInformer()
	changed := make(chan struct{}, 1)
	if err := s.prepare(informer, changed); err != nil {
		return fmt.Errorf("follow %s: %w", s.Describe(), err)
	}

	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { informer.RunWithContext(ctx) })

	select {
	case <-ctx.Done():
		return nil
	case <-informer.HasSyncedChecker().Done():
	}
	out := publisher{update: update}
	known := make(map[problem]bool)
	s.publish(informer.GetStore(), &out, known)

	burst := newDebouncer(s.clock, sliceQuiet, sliceLimit)
	defer burst.stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			burst.signal()
		case <-burst.C():
			burst.done()
			s.publish(informer.GetStore(), &out, known)
		}
	}
}

// prepare makes the informer signal each change. What has changed is not looked at: the store is read as a whole, so
// that an event that was missed, or that names an object whose last state is unknown, is no case of its own.
func (s *kubernetesSource) prepare(informer cache.SharedIndexInformer, changed chan<- struct{}) error {
	if err := informer.SetTransform(dropManagedFields); err != nil {
		return err
	}
	if err := informer.SetWatchErrorHandlerWithContext(s.handleError); err != nil {
		return err
	}
	signal := func() {
		select {
		case changed <- struct{}{}:
		default: // the signal that waits stands for this one too
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { signal() },
		UpdateFunc: func(any, any) { signal() },
		DeleteFunc: func(any) { signal() },
	})
	return err
}

// publish gives the present state of the store on, and logs the problems that are new in it.
func (s *kubernetesSource) publish(store cache.Store, out *publisher, known map[problem]bool) {
	objects := store.List()
	from := make([]*discoveryv1.EndpointSlice, 0, len(objects))
	for _, object := range objects {
		if slice, ok := object.(*discoveryv1.EndpointSlice); ok {
			from = append(from, slice)
		}
	}
	members, problems := merge(from, s.port)
	s.logProblems(problems, known)
	s.reportPorts(members, problems)
	if out.publish(members) {
		s.logger.Debug("members read", zap.Int("members", len(members)), zap.Int("slices", len(from)))
	}
}

// logProblems remembers in known what has been logged, so that a problem is logged when it comes and not again.
func (s *kubernetesSource) logProblems(problems []problem, known map[problem]bool) {
	current := make(map[problem]bool, len(problems))
	logged := 0
	for _, p := range problems {
		current[p] = true
		if known[p] {
			continue
		}
		if logged++; logged <= maxLogged {
			s.logger.Warn("endpoints left out", zap.String("slice", p.slice), zap.String("reason", p.what))
		}
	}
	if logged > maxLogged {
		s.logger.Warn("more endpoints left out for like reasons", zap.Int("count", logged-maxLogged))
	}
	clear(known)
	for p := range current {
		known[p] = true
	}
}

// reportPorts takes a port that cannot be found for a fault of the source if it leaves no member at all. While a
// Service is being changed, some slices have the port and some do not.
func (s *kubernetesSource) reportPorts(members []shard.Member, problems []problem) {
	if len(members) == 0 {
		for _, p := range problems {
			if p.port {
				s.ports.set(p.what, fmt.Errorf("%s has no usable endpoint: %s", s.Describe(), p))
				return
			}
		}
	}
	s.ports.clear()
}

func (s *kubernetesSource) newInformer() cache.SharedIndexInformer {
	selector := labels.Set{discoveryv1.LabelServiceName: s.service}.String()
	api := s.client.DiscoveryV1().EndpointSlices(s.namespace)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			list, err := api.List(ctx, o)
			s.listed(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			w, err := api.Watch(ctx, o)
			s.watched(ctx, o, err)
			return w, err
		},
	}
	return cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, s.client),
		&discoveryv1.EndpointSlice{}, cache.SharedIndexInformerOptions{})
}

// listed and watched see each attempt, which the informer's own error handler does not: a watch that is refused is
// retried without telling it.
func (s *kubernetesSource) listed(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || isExpired(err) {
		return // a list alone is no proof that the source can be followed: the watch comes next
	}
	s.api.set(explainAPIError("list", s.namespace, err))
}

func (s *kubernetesSource) watched(ctx context.Context, o metav1.ListOptions, err error) {
	switch {
	case err == nil:
		s.api.clear()
	case ctx.Err() != nil || isExpired(err):
		// The informer lists again.
	case o.SendInitialEvents != nil && !utilnet.IsConnectionRefused(err) && !apierrors.IsTooManyRequests(err):
		// A watch that replaces the list is not known to all API servers: the informer lists next, and that speaks.
	default:
		s.api.set(explainAPIError("watch", s.namespace, err))
	}
}

// handleError takes the place of the informer's own handler, which logs at each attempt. Lists and watches have been
// seen above; what is left are answers that cannot be understood.
func (s *kubernetesSource) handleError(ctx context.Context, _ *cache.Reflector, err error) {
	if ctx.Err() == nil && s.api.get() == nil && !isExpired(err) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		s.api.set(explainAPIError("read", s.namespace, err))
	}
}

func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// dropManagedFields frees memory: nothing here reads them.
func dropManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
