// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// finder answers Find for one of the two services.
type finder[Q proto.Message, R response] struct {
	kind[Q, R]
	proxy *Proxy
	rpc   *rpc
	// clients and upstreams count the watches open on the two sides.
	clients, upstreams prometheus.Gauge
}

func newFinder[Q proto.Message, R response](p *Proxy, k kind[Q, R]) *finder[Q, R] {
	return &finder[Q, R]{
		kind:      k,
		proxy:     p,
		rpc:       p.metrics.rpc(k.service, methodFind),
		clients:   p.metrics.watches.WithLabelValues(k.service),
		upstreams: p.metrics.upstreams.WithLabelValues(k.service),
	}
}

// serve answers one Find.
func (f *finder[Q, R]) serve(query Q, stream serverStream[R]) error {
	query = f.complete(query)
	if f.watch(query) {
		err := newWatch(f, query, stream).run()
		f.rpc.ended(err)
		return err
	}
	began := f.proxy.options.Clock.Now()
	err := f.serveList(query, stream)
	f.rpc.observe(f.proxy.options.Clock.Since(began), err)
	return err
}

func (f *finder[Q, R]) serveList(query Q, stream serverStream[R]) error {
	l, err := f.list(f.proxy.forwardMetadata(stream.Context()), query)
	if err != nil {
		return err
	}
	if err := stream.SetHeader(f.proxy.endToEnd(l.header)); err != nil {
		return err
	}
	stream.SetTrailer(f.proxy.endToEnd(l.trailer))
	if l.err != nil {
		return l.err
	}
	if len(l.responses) < 2 {
		// The first response never waits for the client: the window of a new stream is empty.
		return sendList(stream, l.responses, func() {})
	}
	// A list is a call in flight, which a drain lets end.
	return f.proxy.send(stream.Context(), new(drain), func(sent func()) error { return sendList(stream, l.responses, sent) })
}

func sendList[R response](stream serverStream[R], responses []R, sent func()) error {
	for _, r := range responses {
		if err := stream.Send(r); err != nil {
			return err
		}
		sent()
	}
	return nil
}

// list is the whole answer to a Find without watch.
type list[R response] struct {
	answer
	member    string
	responses []R
}

// list gets the whole answer to query.
func (f *finder[Q, R]) list(ctx context.Context, query Q) (list[R], error) {
	if f.proxy.options.Store == PartitionedStore && f.queryName(query) == "" {
		if !f.proxy.inFlight.enter() {
			return list[R]{}, errOverloaded("here")
		}
		defer f.proxy.inFlight.leave()
		ctx, cancel := f.proxy.withDeadline(ctx)
		defer cancel()
		return f.listAll(ctx, query)
	}
	var l list[R]
	key := f.key(query)
	_, err := f.proxy.do(ctx, key, nil, f.queryName(query) != "", func(ctx context.Context, m *member, c *conns) answer {
		l = f.listOver(ctx, c, m, key, query)
		return l.answer
	})
	return l, err
}

// key is what decides which member answers, if only one does.
func (f *finder[Q, R]) key(query Q) shard.Key {
	if name := f.queryName(query); name != "" {
		return shard.Key{Space: f.space, Name: name}
	}
	return shard.NSKey(f.group(query))
}

// listMember reads the whole answer of one member.
func (f *finder[Q, R]) listMember(ctx context.Context, m *member, key shard.Key, query Q) list[R] {
	c := m.calls.hold()
	defer c.release()
	return f.listOver(ctx, c, m, key, query)
}

func (f *finder[Q, R]) listOver(ctx context.Context, c *conns, m *member, key shard.Key, query Q) list[R] {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := list[R]{member: m.Name}
	stream, err := open(ctx, c.of(key), f.rpc.fullMethod, query)
	if err != nil {
		l.err = err
		return l
	}
	for {
		r := f.newResponse()
		err := stream.RecvMsg(r)
		if err == nil {
			l.responses = append(l.responses, r)
			continue
		}
		l.answer = streamEnd(stream, err)
		return l
	}
}

// listAll merges the answers of all members. What a member that can't be reached knew is gone with it, as far as
// anybody can tell, so it does not spoil the answers of the others; a status that a member gave does.
func (f *finder[Q, R]) listAll(ctx context.Context, query Q) (list[R], error) {
	var trouble failover
	for {
		current := f.proxy.roster.Load()
		answers := f.ask(ctx, current.all, query)
		if err := ctx.Err(); err != nil {
			return list[R]{}, status.FromContextError(err).Err()
		}
		merged, answered := f.merge(answers)
		if answered {
			return merged, nil
		}
		if len(answers) > 0 {
			trouble.last = lostBy(answers[0].member, answers[0].err)
		}
		if err := f.proxy.wait(ctx, current, &trouble); err != nil {
			return list[R]{}, err
		}
	}
}

// ask gets the answers of members at the same time.
func (f *finder[Q, R]) ask(ctx context.Context, members []*member, query Q) []list[R] {
	answers := make([]list[R], len(members))
	var group sync.WaitGroup
	for i, m := range members {
		group.Go(func() {
			if !m.inFlight.enter() {
				answers[i] = list[R]{member: m.Name, answer: answer{err: errOverloaded("at member " + m.Name)}}
				return
			}
			defer m.inFlight.leave()
			answers[i] = f.listMember(ctx, m, f.key(query), query)
			if answers[i].lost() && ctx.Err() == nil && !m.hasLeft() && m.reachable(f.key(query)) {
				f.proxy.metrics.retried(retrySame)
				answers[i] = f.listMember(ctx, m, f.key(query), query)
			}
		})
	}
	group.Wait()
	return answers
}

// merge makes one answer of several; false if nobody answered. Of a name that several members have, the response of
// the member that serves it counts: the others may have copies from before a change of members.
func (f *finder[Q, R]) merge(answers []list[R]) (merged list[R], answered bool) {
	index := make(map[string]int) // name -> place in merged.responses
	for i := range answers {
		a := &answers[i]
		switch {
		case a.lost():
			continue
		case a.err != nil:
			return list[R]{answer: a.answer}, true
		}
		if !answered {
			merged.header, merged.trailer = a.header, a.trailer
		}
		answered = true
		for _, r := range a.responses {
			name := f.name(r)
			if at, ok := index[name]; ok {
				if f.serves(a.member, name) {
					merged.responses[at] = r
				}
				continue
			}
			index[name] = len(merged.responses)
			merged.responses = append(merged.responses, r)
		}
	}
	return merged, answered
}

// serves says whether member is the one that calls about name go to.
func (f *finder[Q, R]) serves(member, name string) bool {
	route, ok := f.proxy.table.Route(shard.Key{Space: f.space, Name: name}, nil)
	return ok && route.Member == member
}
