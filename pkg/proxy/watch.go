// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	// watchSpread is the time over which the watches of a member that left are ended or opened elsewhere: not
	// all clients of a lost member shall come back in one instant.
	watchSpread = time.Second
	// vanishGrace is how long what only a lost member of a partitioned store knew is not yet reported as
	// deleted: its clients register it elsewhere meanwhile, mostly within a second or two.
	vanishGrace = 5 * time.Second
	// resyncDelay is how long after a watch was opened another list is read, that tells what is in neither: registry-k8s
	// lists first and begins to watch afterwards. A second is far more than it takes in between.
	resyncDelay = time.Second
	// answerWait is how long is waited for a stream to begin, before it is taken for one that has nothing to tell.
	answerWait = 5 * time.Second
)

// watch is one client's Find with watch.
type watch[Q proto.Message, R response] struct {
	*finder[Q, R]
	query  Q
	stream serverStream[R]
	key    shard.Key
	// named watches ask for one name.
	named bool

	queue *queue[R]
	// seen is what the client knows; nil for named watches, which do not go on elsewhere.
	seen *sightings
	// verdict is how the watch ends, from the side of the members.
	verdict chan answer
	// feeders are the goroutines that read from members.
	feeders sync.WaitGroup
}

func newWatch[Q proto.Message, R response](f *finder[Q, R], query Q, stream serverStream[R]) *watch[Q, R] {
	w := &watch[Q, R]{
		finder:  f,
		query:   query,
		stream:  stream,
		key:     f.key(query),
		named:   f.queryName(query) != "",
		queue:   newQueue[R](),
		verdict: make(chan answer, 1),
	}
	if !w.named {
		w.seen = newSightings()
	}
	return w
}

// run serves the watch until one of its sides ends it.
func (w *watch[Q, R]) run() error {
	w.clients.Inc()
	defer w.clients.Dec()
	ctx, cancel := context.WithCancel(w.proxy.forwardMetadata(w.stream.Context()))
	defer w.feeders.Wait()
	defer cancel()

	w.feeders.Go(func() {
		if w.proxy.options.Store == PartitionedStore && !w.named {
			w.followAll(ctx)
			return
		}
		if a, ok := w.followOne(ctx); ok {
			w.verdict <- a
		}
	})
	return w.deliver(ctx)
}

// deliver sends to the client until the watch ends.
func (w *watch[Q, R]) deliver(ctx context.Context) error {
	d := w.proxy.newDrain(w.spread)
	defer d.stop()
	for {
		select {
		case <-d.begins:
			d.begin()
		case <-d.over:
			return errStopping()
		case <-w.queue.filled:
			if err := w.sendAll(ctx, d); err != nil {
				return err
			}
		case a := <-w.verdict:
			// What came before the end goes out before the end.
			if err := w.sendAll(ctx, d); err != nil {
				return err
			}
			w.stream.SetTrailer(w.proxy.endToEnd(a.trailer))
			return a.err
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-w.proxy.closed:
			return errStopping()
		}
	}
}

// sendAll sends what is in the queue.
func (w *watch[Q, R]) sendAll(ctx context.Context, d *drain) error {
	err := w.proxy.send(ctx, d, w.sendQueued)
	if errors.Is(err, errStalled) {
		w.proxy.metrics.dropped.Inc()
	}
	return err
}

func (w *watch[Q, R]) sendQueued(sent func()) error {
	for {
		if header := w.queue.takeHeader(); header != nil {
			if err := w.stream.SendHeader(w.proxy.endToEnd(header)); err != nil {
				return err
			}
		}
		r, ok := w.queue.take()
		if !ok {
			return nil
		}
		if err := w.stream.Send(r); err != nil {
			return err
		}
		sent()
	}
}

// followOne keeps the watch open at the one member that serves it, and returns the end of the watch, or false if
// the client or the proxy ended it.
func (w *watch[Q, R]) followOne(ctx context.Context) (answer, bool) {
	f := failover{named: w.named}
	var pace pace
	established := false
	for {
		m, err := w.proxy.pick(ctx, w.key, nil, &f)
		switch {
		case ctx.Err() != nil || w.proxy.stopping():
			return answer{}, false
		case err != nil:
			return answer{err: err}, true
		}
		began := w.proxy.options.Clock.Now()
		end := w.feed(ctx, m, sharedOwner, f.skip)
		pause := pace.next(w.proxy.options.Clock.Since(began))
		established = established || end.established
		if end.established && end.lost() && !end.left && !w.proxy.sleep(ctx, w.spread()) {
			// The connection broke, and with it all watches of the member in one instant.
			return answer{}, false
		}
		if final, ok := w.final(end, m, established); ok {
			return final, true
		}
		if end.moved {
			f = failover{named: w.named, patient: established}
			continue
		}
		if end.established {
			if !w.proxy.sleep(ctx, pause) {
				return answer{}, false
			}
			// The client has its watch; that there is nobody to hear from will be no news.
			f = failover{named: w.named, patient: true}
		}
		w.proxy.failed(m, w.key, end.cause(), &f)
	}
}

// sharedOwner is the owner of all names of a shared store.
const sharedOwner = ""

// final returns how the watch ends because a stream of it ended, or false if it goes on elsewhere.
func (w *watch[Q, R]) final(end feedEnd, m *member, established bool) (answer, bool) {
	switch {
	case !established:
		// Nothing has been promised yet: a member's own error is the answer, a lost call is repeated.
		return end.answer, end.err != nil && !end.lost() && !end.left
	case w.named && (end.left || end.err == nil || end.lost()):
		return answer{err: status.Errorf(codes.Unavailable, "registry-lb: member %s, which held this name, has left: register again", m.Name)}, true
	case w.named:
		return end.answer, true
	case end.left || end.err == nil || end.lost():
		return answer{}, false
	}
	if membersTrouble(status.Code(end.err)) {
		return answer{}, false
	}
	return end.answer, true
}

// membersTrouble says whether a status that ends a watch says something about the member rather than the request.
func membersTrouble(code codes.Code) bool {
	return slices.Contains([]codes.Code{
		codes.Unavailable, codes.Canceled, codes.Aborted, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.ResourceExhausted,
	}, code)
}

// followAll keeps the watch open at all members.
func (w *watch[Q, R]) followAll(ctx context.Context) {
	following := make(map[*member]struct{})
	var trouble failover
	for ctx.Err() == nil {
		current := w.proxy.roster.Load()
		for _, m := range current.all {
			if _, ok := following[m]; !ok {
				following[m] = struct{}{}
				w.feeders.Go(func() { w.followMember(ctx, m) })
			}
		}
		for m := range following {
			if current.byName[m.Name] != m {
				delete(following, m)
			}
		}
		if len(current.all) == 0 && !w.queue.headed() {
			if err := w.proxy.wait(ctx, current, &trouble); err != nil {
				w.end(answer{err: err})
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-current.superseded:
		}
	}
}

// end ends the watch unless it has been ended already.
func (w *watch[Q, R]) end(a answer) {
	select {
	case w.verdict <- a:
	default:
	}
}

// followMember keeps the watch open at one member of a partitioned store for as long as the member lives.
func (w *watch[Q, R]) followMember(ctx context.Context, m *member) {
	var pace pace
	established := false
	for !m.hasLeft() {
		began := w.proxy.options.Clock.Now()
		end := w.feed(ctx, m, m.Name, nil)
		if ctx.Err() != nil {
			return
		}
		established = established || end.established
		if final, ok := w.final(end, m, established); ok {
			w.end(final)
			return
		}
		if !w.proxy.sleep(ctx, max(pace.next(w.proxy.options.Clock.Since(began)), firstPause)) {
			return
		}
	}
	if w.proxy.sleep(ctx, vanishGrace) && w.proxy.roster.Load().byName[m.Name] == nil {
		feed, _ := w.seen.newFeed(m.Name)
		w.seen.vanish(m.Name, feed, w.putDeleted)
	}
}

// feedEnd is how one stream from a member ended.
type feedEnd struct {
	answer
	// established says that the member had begun to answer.
	established bool
	// left says that the stream was ended because the member left, or because the name has moved.
	left bool
	// moved says that the name has its place at another member now.
	moved bool
}

var errEnded = errors.New("the member ended the watch")

// cause returns why the stream ended, for people.
func (e feedEnd) cause() error {
	if e.err == nil {
		return errEnded
	}
	return e.err
}

// feed puts into the queue what one stream from m gives, until the stream ends. skip says which members could not be
// reached, so that m was asked instead.
func (w *watch[Q, R]) feed(ctx context.Context, m *member, owner string, skip func(string) bool) (end feedEnd) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(m.life, func() { //nolint:contextcheck // the member's life ends the client's stream
		if w.proxy.sleep(ctx, w.spread()) {
			cancel()
		}
	})
	defer stop()
	defer func() { end.left = end.left || m.hasLeft() }()

	w.upstreams.Inc()
	defer w.upstreams.Dec()
	c := m.watches.hold()
	defer c.release()
	stream, err := open(ctx, c.next(), w.rpc.fullMethod, w.query)
	if err != nil {
		end.err = err
		return end
	}
	var feed uint64
	answered := make(chan struct{})
	if w.seen != nil {
		var before bool
		if feed, before = w.seen.newFeed(owner); before {
			resynced := make(chan struct{})
			go func() {
				defer close(resynced)
				if !w.resync(ctx, m, owner, feed, answered) {
					cancel()
				}
			}()
			defer func() { cancel(); <-resynced }()
		}
	}
	header, moved := w.awaitHeader(stream, m, skip)
	close(answered)
	if moved {
		end.left, end.moved = true, true
		return end
	}
	if len(header[contentType]) > 0 {
		end.established = true
		w.queue.putHeader(header)
	}
	for {
		r := w.newResponse()
		if err := stream.RecvMsg(r); err != nil {
			end.answer = streamEnd(stream, err)
			return end
		}
		w.put(r, owner, feed)
	}
}

// spread returns how long this watch waits before it does what all watches of a member have to do.
func (w *watch[Q, R]) spread() time.Duration {
	return time.Duration(w.proxy.options.Rand() * float64(watchSpread))
}

// awaitHeader waits until the member begins to answer or the stream ends. A watch by name that has heard nothing yet
// must not wait at a member of a partitioned store to which nobody would register the name any more: moved is true
// when a change of members has moved the name's place.
func (w *watch[Q, R]) awaitHeader(stream grpc.ClientStream, m *member, skip func(string) bool) (header metadata.MD, moved bool) {
	if !w.named || w.proxy.options.Store != PartitionedStore {
		header, _ = stream.Header() // the stream's end says what is wrong
		return header, false
	}
	arrived := make(chan metadata.MD, 1)
	go func() {
		header, _ := stream.Header()
		arrived <- header
	}()
	for {
		current := w.proxy.roster.Load()
		if now, ok := w.proxy.table.Route(w.key, nil); ok && now.Member != m.Name && !skip(now.Member) {
			return nil, true
		}
		select {
		case header := <-arrived:
			return header, false
		case <-current.superseded:
		}
	}
}

func (w *watch[Q, R]) put(r R, owner string, feed uint64) {
	name := w.name(r)
	if w.seen == nil {
		w.queue.put(name, r)
		return
	}
	w.seen.see(name, r, owner, feed, func() { w.queue.put(name, r) })
}

func (w *watch[Q, R]) putDeleted(name string) {
	w.queue.put(name, w.deleted(w.query, name))
}

// resync finds out what vanished between two streams: what the client knows and the member does not list. Of a shared
// store it also finds what the new stream has missed: registry-k8s first lists and then begins to listen, and what
// happens in between it never tells. So it begins when the stream has begun to answer, which one that has nothing to
// list does not do, and a little later. It is false if the member could not be asked.
func (w *watch[Q, R]) resync(ctx context.Context, m *member, owner string, feed uint64, answered <-chan struct{}) bool {
	if !w.proxy.sleepOr(ctx, answerWait, answered) {
		return false
	}
	delay := resyncDelay
	if owner != sharedOwner {
		delay = vanishGrace
	}
	if !w.proxy.sleep(ctx, delay) {
		return false
	}
	comparison := w.seen.compare()
	l := w.listMember(ctx, m, w.key, w.listing(w.query))
	if l.err != nil {
		w.seen.dismiss(comparison)
		return false
	}
	listed := make(map[string]response, len(l.responses))
	responses := make(map[string]R, len(l.responses))
	for _, r := range l.responses {
		listed[w.name(r)], responses[w.name(r)] = r, r
	}
	w.seen.settle(comparison, owner, feed, listed, func(name string) { w.queue.put(name, responses[name]) }, w.putDeleted)
	return true
}
