// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"slices"
	"sync"

	"google.golang.org/grpc/metadata"
)

// queue is what a watching client has still to be sent. Nobody waits to put something in: responses about a name
// that is in the queue replace each other, so that its length is bounded by the number of names there are, and a
// client that is behind gets the latest state of each, not all states in between.
type queue[R any] struct {
	mu sync.Mutex
	// header is to be sent; hasHeader says that there is one, or was.
	header    metadata.MD
	hasHeader bool
	// order[head:] are the names in the queue, in the order in which they came in.
	order  []string
	head   int
	latest map[string]R
	// filled holds a value when there may be something to take.
	filled chan struct{}
}

func newQueue[R any]() *queue[R] {
	return &queue[R]{filled: make(chan struct{}, 1)}
}

// put adds a response about name.
func (q *queue[R]) put(name string, r R) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.latest == nil {
		q.latest = make(map[string]R)
	}
	if _, ok := q.latest[name]; !ok {
		q.order = append(q.order, name)
	}
	q.latest[name] = r
	q.signal()
}

// putHeader sets the header that goes out before the first response, or at once if there is none. Only the first
// header counts, and whoever was here before its first put can be sure that the header goes out before it.
func (q *queue[R]) putHeader(header metadata.MD) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hasHeader {
		return
	}
	q.header, q.hasHeader = header, true
	q.signal()
}

// headed says whether there has been a header.
func (q *queue[R]) headed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hasHeader
}

func (q *queue[R]) signal() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

// takeHeader returns the header to send, nil if there is none.
func (q *queue[R]) takeHeader() metadata.MD {
	q.mu.Lock()
	defer q.mu.Unlock()
	header := q.header
	q.header = nil
	return header
}

// take returns the next response to send, false if there is none.
func (q *queue[R]) take() (r R, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == len(q.order) {
		// What a burst needed is given back: most watches are idle most of the time.
		q.order, q.head, q.latest = nil, 0, nil
		return r, false
	}
	name := q.order[q.head]
	q.order[q.head] = ""
	q.head++
	r = q.latest[name]
	delete(q.latest, name)
	if q.head > len(q.order)/2 {
		// A queue that never runs empty must not grow with what went through it.
		q.order = slices.Delete(q.order, 0, q.head)
		q.head = 0
	}
	return r, true
}
