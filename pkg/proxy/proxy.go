// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// Proxy sends the calls of a registry's clients to the members that serve them. It is safe for concurrent use.
// It must be closed by [Proxy.Run].
type Proxy struct {
	options Options
	table   *shard.Table
	metrics *metrics
	// directory keeps the table's holders in step with the registries.
	directory *directory
	order     *order
	budget    *budget
	// inFlight bounds the calls in flight, watches left out.
	inFlight gate

	roster atomic.Pointer[roster]
	// draining is closed when watches shall end, spread out.
	draining  chan struct{}
	drainOnce sync.Once
	// closed is closed when the proxy stops: what waits or streams then ends.
	closed chan struct{}

	// mu serialises changes of the members.
	mu sync.Mutex
	// known says that the source of members has been heard.
	known bool
	// described is what it says.
	described []shard.Member
	// graces counts how often all members have vanished at once and were kept.
	graces  int
	history history
	// logged are the members of the last log line about them.
	logged []string
	// background counts goroutines that see members come and go.
	background sync.WaitGroup
}

// New returns a proxy without members. An error means that the options can't be right, or that the registerer has
// metrics of these names already.
func New(options Options) (*Proxy, error) {
	if err := options.setDefaults(); err != nil {
		return nil, err
	}
	p := &Proxy{
		options:  options,
		table:    shard.NewTable(options.Clock),
		order:    newOrder(),
		budget:   newBudget(),
		inFlight: gate{limit: options.MaxCalls},
		closed:   make(chan struct{}),
		draining: make(chan struct{}),
		history:  newHistory(options.Clock),
	}
	p.roster.Store(newRoster(nil))
	p.directory = newDirectory(p)
	p.metrics = newMetrics(p)
	if options.Registerer != nil {
		if err := p.metrics.register(options.Registerer); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return p, nil
}

// Run keeps the directory of holders in step with the registries, and blocks until ctx is done. Then it ends all watches
// and calls with Unavailable, closes the connections to all members and returns nil. A proxy can't be used after it.
func (p *Proxy) Run(ctx context.Context) error {
	p.directory.run(ctx)
	p.mu.Lock()
	close(p.closed)
	for _, m := range p.roster.Load().byName {
		m.close()
	}
	p.mu.Unlock()
	p.background.Wait()
	return nil
}

// Drain ends all watches with Unavailable, spread over a second so that their clients do not come back elsewhere all at
// once. Other calls go on. It does not wait.
func (p *Proxy) Drain() {
	p.drainOnce.Do(func() { close(p.draining) })
}

// NetworkServiceEndpointRegistryServer returns the chain element for calls about NSEs.
func (p *Proxy) NetworkServiceEndpointRegistryServer() registry.NetworkServiceEndpointRegistryServer {
	return p.withNSEHop(newNSEServer(p))
}

// NetworkServiceRegistryServer returns the chain element for calls about NSs.
func (p *Proxy) NetworkServiceRegistryServer() registry.NetworkServiceRegistryServer {
	return p.withNSHop(newNSServer(p))
}

// Members describes the members that the proxy was given, and those that left lately, sorted by name.
func (p *Proxy) Members() []MemberStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.history.list(p.table.Ring().Shares())
	keys, current := p.table.KeysByMember(), p.roster.Load()
	for i := range list {
		list[i].Keys = keys[list[i].Name]
		if m := current.byName[list[i].Name]; m != nil {
			list[i].InFlight = m.inFlight.inFlight.Load()
			if id := m.id.Load(); id != nil {
				list[i].SpiffeID = *id
			}
		}
	}
	return list
}

// Status describes the directory of holders.
func (p *Proxy) Status() Status {
	return Status{
		DirectoryStatus: p.directory.status(),
		Keys:            p.table.Keys(),
		KeysByMember:    p.table.KeysByMember(),
		DuplicateIDs:    p.table.DuplicateIDs(),
		Checksum:        p.table.Ring().Checksum(),
	}
}

// Known says whether the proxy has been told of members, were it that there are none.
func (p *Proxy) Known() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// NotReady returns why calls should not be sent here yet, a line each; none if they can be. Without any member it is
// ready too: a call then gets an answer that says so.
func (p *Proxy) NotReady() []string {
	if !p.Known() {
		return []string{fmt.Sprintf("members are not known yet: %s has not been read", p.options.Backends)}
	}
	if s := p.directory.status(); s.Reason != "" && !s.GaveUp {
		return []string{s.Reason}
	}
	return nil
}

// Locate returns the member that a call on key would go to, why, and since when. It is false if there is no member.
func (p *Proxy) Locate(key shard.Key) (shard.Location, bool) {
	return p.table.Locate(key)
}

// stopping says whether the proxy has been stopped.
func (p *Proxy) stopping() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// sleep waits for d, and is false if ctx or the proxy ended before.
func (p *Proxy) sleep(ctx context.Context, d time.Duration) bool {
	return p.sleepOr(ctx, d, nil)
}

// sleepOr waits for d, or until woken is closed, and is false if ctx or the proxy ended before.
func (p *Proxy) sleepOr(ctx context.Context, d time.Duration, woken <-chan struct{}) bool {
	if d <= 0 {
		return ctx.Err() == nil && !p.stopping()
	}
	timer := p.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-p.closed:
		return false
	case <-woken:
		return true
	case <-timer.C():
		return true
	}
}
