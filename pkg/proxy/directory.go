// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	// retryListing is the pause after a listing that failed.
	retryListing = time.Second
	// identifyWait is how long the first listing waits for members to say who they are: without that its path_ids say
	// nothing. Members that have not said so by then are learnt later.
	identifyWait = 2 * time.Second
	// syncTimeout is how long readiness waits for the directory. Routing without it is routing by path_ids and ring,
	// which is better than none.
	syncTimeout = 15 * time.Second
	// sweepInterval is how often a part of the directory is looked through for what has expired.
	sweepInterval = time.Second
)

// directory keeps the table's holders in step with what the registries themselves know, and so with what other
// registry-lb replicas do: it watches everything on one member of a shared store, or on each of a partitioned one.
type directory struct {
	proxy *Proxy
	// relist is closed and replaced when a listing would tell more than before.
	relist atomic.Pointer[chan struct{}]

	mu sync.Mutex
	// began is when there was something to sync with.
	began time.Time
	// pending are the listings that have not been complete yet.
	pending map[listingKey]struct{}
	// listed is when a listing was last complete.
	listed time.Time
	gaveUp bool
}

// listingKey names one source of the directory: a kind, and the member where the store is partitioned.
type listingKey struct {
	space  shard.Space
	member string
}

func newDirectory(p *Proxy) *directory {
	d := &directory{proxy: p}
	signal := make(chan struct{})
	d.relist.Store(&signal)
	return d
}

// run follows the registries until ctx is done.
func (d *directory) run(ctx context.Context) {
	if !d.kept() {
		<-ctx.Done()
		return
	}
	ctx = markOwn(ctx, "directory")
	var group sync.WaitGroup
	group.Go(func() { newFollower(d, nseKind()).run(ctx) })
	group.Go(func() { newFollower(d, nsKind()).run(ctx) })
	for d.proxy.sleep(ctx, sweepInterval) {
		d.proxy.table.Sweep()
	}
	group.Wait()
}

// kept is false if there is to be no directory.
func (d *directory) kept() bool { return d.proxy.options.ListingInterval > 0 }

// listAgain has the followers list at once.
func (d *directory) listAgain() {
	signal := make(chan struct{})
	close(*d.relist.Swap(&signal))
}

// expect notes the listings that are needed before the directory is in sync. Only those that were needed first count:
// what a member that comes later knows it tells while it is already in use.
func (d *directory) expect(members []*member) {
	if !d.kept() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.pending != nil:
		// A member that is gone has nothing to tell any more.
		if d.proxy.options.Store == PartitionedStore {
			for key := range d.pending {
				if !hasMember(members, key.member) {
					delete(d.pending, key)
				}
			}
		}
		return
	case len(members) == 0:
		return
	}
	d.began = d.proxy.options.Clock.Now()
	d.pending = make(map[listingKey]struct{})
	for _, space := range []shard.Space{shard.NSE, shard.NS} {
		if d.proxy.options.Store == SharedStore {
			d.pending[listingKey{space: space}] = struct{}{}
			continue
		}
		for _, m := range members {
			d.pending[listingKey{space, m.Name}] = struct{}{}
		}
	}
}

func hasMember(members []*member, name string) bool {
	for _, m := range members {
		if m.Name == name {
			return true
		}
	}
	return false
}

// complete notes a complete listing.
func (d *directory) complete(key listingKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listed = d.proxy.options.Clock.Now()
	delete(d.pending, key)
}

// awaits says whether calls wait until a listing of this source is complete.
func (d *directory) awaits(key listingKey) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, pending := d.pending[key]
	return pending && !d.gaveUp
}

// status says whether the directory is in sync, when it was last compared with a full listing, and if it is not in
// sync, why.
func (d *directory) status() DirectoryStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := DirectoryStatus{LastListing: d.listed}
	if len(d.pending) == 0 || len(d.proxy.roster.Load().all) == 0 {
		s.Synced = d.pending != nil && len(d.pending) == 0
		return s
	}
	waited := d.proxy.options.Clock.Since(d.began)
	s.Reason = fmt.Sprintf("the directory of holders is not in sync: %d full listings are missing after %v",
		len(d.pending), waited.Round(time.Millisecond))
	if waited >= syncTimeout {
		s.GaveUp = true
		if !d.gaveUp {
			d.gaveUp = true
			d.proxy.options.Log.Warn("calls are taken though " + s.Reason)
		}
	}
	return s
}

// DirectoryStatus describes how well the directory of holders is in step with the registries.
type DirectoryStatus struct {
	// Synced says that each source has been listed in full once. It is false while there has been no member.
	Synced bool
	// GaveUp says that this took so long that calls are taken without.
	GaveUp bool
	// Reason says why it is not in sync; empty if it is, or if there is nothing to be in sync with.
	Reason string
	// LastListing is when a full listing was last complete; zero: never.
	LastListing time.Time
}

// follower follows one kind.
type follower[Q proto.Message, R response] struct {
	*finder[Q, R]
	directory *directory
}

func newFollower[Q proto.Message, R response](d *directory, k kind[Q, R]) *follower[Q, R] {
	return &follower[Q, R]{finder: newFinder(d.proxy, k), directory: d}
}

func (f *follower[Q, R]) run(ctx context.Context) {
	if f.proxy.options.Store == PartitionedStore {
		f.followAll(ctx)
		return
	}
	var pace pace
	for ctx.Err() == nil {
		current := f.proxy.roster.Load()
		if len(current.all) == 0 || current.transition {
			select {
			case <-ctx.Done():
			case <-current.superseded:
			}
			continue
		}
		// Any will do; a random one keeps several registry-lb replicas from all asking the same.
		m := current.all[min(int(f.proxy.options.Rand()*float64(len(current.all))), len(current.all)-1)]
		began := f.proxy.options.Clock.Now()
		f.followMember(ctx, m, "")
		f.proxy.sleep(ctx, max(firstPause, pace.next(f.proxy.options.Clock.Since(began))))
	}
}

func (f *follower[Q, R]) followAll(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	following := make(map[*member]struct{})
	for ctx.Err() == nil {
		current := f.proxy.roster.Load()
		for _, m := range current.all {
			if current.transition {
				break // what m tells could not be understood
			}
			if _, ok := following[m]; ok {
				continue
			}
			following[m] = struct{}{}
			group.Go(func() {
				var pace pace
				for ctx.Err() == nil && !m.hasLeft() {
					began := f.proxy.options.Clock.Now()
					f.followMember(ctx, m, m.Name)
					f.proxy.sleep(ctx, max(firstPause, pace.next(f.proxy.options.Clock.Since(began))))
				}
			})
		}
		for m := range following {
			if current.byName[m.Name] != m {
				delete(following, m)
			}
		}
		select {
		case <-ctx.Done():
		case <-current.superseded:
		}
	}
}

// followMember learns what m tells until it tells no more. owner is m's name if what m has is m's, and empty if m
// speaks for a shared store.
func (f *follower[Q, R]) followMember(ctx context.Context, m *member, owner string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(m.life, cancel) //nolint:contextcheck // the member's life ends the stream, too
	defer stop()
	if owner == "" {
		f.awaitIdentities(ctx)
	}
	query := f.everything()
	c := m.watches.hold()
	defer c.release()
	stream, err := open(ctx, c.next(), f.rpc.fullMethod, query)
	if err != nil {
		return
	}
	var lister sync.WaitGroup
	defer lister.Wait()
	lister.Go(func() {
		defer cancel()
		f.keepListing(ctx, m, owner, f.listing(query))
	})
	defer cancel()
	standing := true
	for {
		r := f.newResponse()
		if err := stream.RecvMsg(r); err != nil {
			return
		}
		key, record := f.record(r, owner)
		standing = standing && f.directory.awaits(listingKey{f.space, owner})
		record.Standing = standing
		if r.GetDeleted() {
			f.proxy.table.Deleted(key, record)
			continue
		}
		f.proxy.remapped(f.proxy.table.Observed(key, record))
	}
}

// keepListing compares the directory with full listings, now and then.
func (f *follower[Q, R]) keepListing(ctx context.Context, m *member, owner string, query Q) {
	failures, opened := 0, f.proxy.options.Clock.Now()
	for {
		resync := opened.Add(resyncDelay).After(f.proxy.options.Clock.Now())
		relist := *f.directory.relist.Load()
		pause := time.Duration((0.75 + f.proxy.options.Rand()/2) * float64(f.proxy.options.ListingInterval))
		if err := f.compare(ctx, m, owner, query); err != nil {
			if failures++; failures > 1 {
				// Another member may do better.
				f.proxy.options.Log.Warn("a full listing failed", zap.String("member", m.Name), zap.String("service", f.service), zap.Error(err))
				f.proxy.sleep(ctx, retryListing)
				return
			}
			pause = retryListing
		} else {
			failures = 0
			if resync {
				pause = min(pause, resyncDelay)
			}
		}
		timer := f.proxy.options.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-relist:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// compare makes one comparison with a full listing.
func (f *follower[Q, R]) compare(ctx context.Context, m *member, owner string, query Q) error {
	comparison := f.proxy.table.BeginListingOf(f.space, owner)
	ctx, cancel := context.WithTimeout(ctx, f.proxy.options.CallTimeout)
	defer cancel()
	l := f.listMember(ctx, m, shard.Key{Space: f.space}, query)
	if l.err != nil {
		return l.err
	}
	for _, r := range l.responses {
		key, record := f.record(r, owner)
		f.proxy.remapped(comparison.Seen(key.Name, record))
	}
	comparison.End()
	f.directory.complete(listingKey{f.space, owner})
	return nil
}

// record returns what a response tells about its key.
func (f *follower[Q, R]) record(r R, owner string) (shard.Key, shard.Record) {
	record := f.kind.record(r)
	record.Member = owner
	return shard.Key{Space: f.space, Name: f.name(r)}, record
}

// awaitIdentities waits, for a while, until all members have said who they are.
func (f *follower[Q, R]) awaitIdentities(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, identifyWait)
	defer cancel()
	for _, m := range f.proxy.roster.Load().all {
		select {
		case <-ctx.Done():
			return
		case <-m.life.Done():
		case <-m.identified:
		}
	}
}
