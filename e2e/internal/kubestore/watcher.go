// SPDX-License-Identifier: Apache-2.0

package kubestore

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// news is an event whose object has not been copied yet.
type news[T object] struct {
	what   watch.EventType
	object T
}

// watcher is one watch. Putting news into it never blocks.
type watcher[T object] struct {
	namespace string
	clone     func(T) T
	results   chan watch.Event

	mu    sync.Mutex
	queue []news[T]
	// filled holds a value when there may be news.
	filled chan struct{}

	stop     chan struct{}
	stopOnce sync.Once
}

var _ watch.Interface = (*watcher[object])(nil)

// newWatcher begins a watch with all there is.
func (c *collection[T]) newWatcher(ctx context.Context, namespace string, options metav1.ListOptions) *watcher[T] {
	w := &watcher[T]{
		namespace: namespace,
		clone:     c.clone,
		results:   make(chan watch.Event, watch.DefaultChanSize),
		filled:    make(chan struct{}, 1),
		stop:      make(chan struct{}),
	}
	limit := c.store.options.WatchLimit
	if asked := options.TimeoutSeconds; asked != nil && *asked > 0 {
		if timeout := time.Duration(*asked) * time.Second; limit == 0 || timeout < limit {
			limit = timeout
		}
	}

	c.store.mu.Lock()
	for _, o := range c.locked(namespace) {
		w.put(news[T]{what: watch.Added, object: o})
	}
	c.watchers[w] = struct{}{}
	c.store.mu.Unlock()

	go func() {
		w.run(ctx, func() (<-chan time.Time, func()) {
			if limit == 0 {
				return nil, func() {}
			}
			timer := c.store.options.Clock.NewTimer(limit)
			return timer.C(), func() { timer.Stop() }
		})
		c.store.mu.Lock()
		delete(c.watchers, w)
		c.store.mu.Unlock()
	}()
	return w
}

// ResultChan returns the channel of events. It is closed when the watch ends.
func (w *watcher[T]) ResultChan() <-chan watch.Event { return w.results }

// Stop ends the watch; it does not wait, and may be called again.
func (w *watcher[T]) Stop() { w.stopOnce.Do(func() { close(w.stop) }) }

func (w *watcher[T]) put(n news[T]) {
	if w.namespace != "" && n.object.GetNamespace() != w.namespace {
		return
	}
	w.mu.Lock()
	w.queue = append(w.queue, n)
	w.mu.Unlock()
	select {
	case w.filled <- struct{}{}:
	default:
	}
}

// take returns all news there are.
func (w *watcher[T]) take() []news[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.queue
	w.queue = nil
	return taken
}

// run hands out events until the watch ends. What is left then is dropped.
func (w *watcher[T]) run(ctx context.Context, newTimer func() (over <-chan time.Time, stop func())) {
	defer close(w.results)
	over, stop := newTimer()
	defer stop()
	for {
		for _, n := range w.take() {
			select {
			case w.results <- watch.Event{Type: n.what, Object: w.clone(n.object)}:
			case <-ctx.Done():
				return
			case <-w.stop:
				return
			case <-over:
				return
			}
		}
		select {
		case <-w.filled:
		case <-ctx.Done():
			return
		case <-w.stop:
			return
		case <-over:
			return
		}
	}
}
