// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// SetMembers replaces the set of members. Those that are ready get calls from now on; a newcomer gets keys that nobody
// holds after [Options.JoinDelay] only. Those that are not there or not ready any more get no calls, and their
// connections are closed when the calls in flight have had time to end. Members that stay keep their connections. The
// proxy takes over the slice.
func (p *Proxy) SetMembers(members []shard.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping() {
		return
	}
	p.described = members
	before := p.roster.Load()
	after := make(map[string]*member, len(members))
	for _, described := range members {
		if described.Phase != shard.Ready {
			continue
		}
		m, err := p.admit(before, described)
		if err != nil {
			p.options.Log.Error("a member can't be used", zap.String("member", described.Name), zap.Error(err))
			continue
		}
		after[m.Name] = m
	}
	p.publish(before, after)
}

// admit returns the member that is described: the one that is known already, or a new one.
func (p *Proxy) admit(before *roster, described shard.Member) (*member, error) {
	known := before.byName[described.Name]
	if known != nil && known.is(described) {
		return known, nil
	}
	m, err := newMember(described, p.options.DialOptions)
	if err != nil {
		return nil, err
	}
	switch {
	case known != nil:
		// A new life in the same place: the ring does not change.
		m.joined = known.joined
	case p.options.JoinDelay <= 0:
		m.joined = true
	}
	if !m.joined {
		p.background.Go(func() {
			if p.sleep(m.life, p.options.JoinDelay) {
				p.join(m)
			}
		})
	}
	return m, nil
}

// join gives m its place in the ring.
func (p *Proxy) join(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	current := p.roster.Load()
	if p.stopping() || m.joined || current.byName[m.Name] != m {
		return
	}
	m.joined = true
	p.publish(current, current.byName)
	p.options.Log.Info("a member joined the ring", zap.String("member", m.Name), zap.String("uid", m.UID))
}

// publish makes after the members that calls go to.
func (p *Proxy) publish(before *roster, after map[string]*member) {
	both := make(map[string]*member, len(before.all)+len(after))
	var gone []*member
	for name, m := range before.byName {
		both[name] = m
		if after[name] != m {
			gone = append(gone, m)
		}
	}
	var live, joining []shard.Member
	// With newcomers only there is nobody to leave the new keys to meanwhile. They all join at once: if they did so one
	// after the other, keys would move.
	alone := !slices.ContainsFunc(slices.Collect(maps.Values(after)), func(m *member) bool { return m.joined })
	for name, m := range after {
		both[name] = m
		m.joined = m.joined || alone
		if m.joined {
			live = append(live, m.Member)
		} else {
			joining = append(joining, m.Member)
		}
	}
	// A call first asks the table for a route and then the roster for the member, so the roster has to have each
	// member that the table can name.
	transition := newRoster(both)
	p.roster.Store(transition)
	p.table.SetMembers(live, joining)
	current := newRoster(after)
	p.roster.Store(current)

	p.history.update(p.described, after)
	p.metrics.membersSet(p.options.Clock.Now(), p.history.count())
	if len(gone) > 0 || len(after) != len(before.all) {
		p.logChange(before, current, gone)
	}
	for _, m := range gone {
		p.retire(m)
	}
	close(before.superseded)
	close(transition.superseded)
}

// retire ends a member's life here: watches are told at once, calls in flight get time to end.
func (p *Proxy) retire(m *member) {
	m.end()
	p.background.Go(func() {
		timer := p.options.Clock.NewTimer(leaveGrace)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-p.closed:
		}
		m.close()
	})
}

func (p *Proxy) logChange(before, after *roster, gone []*member) {
	left := make([]string, 0, len(gone))
	for _, m := range gone {
		left = append(left, fmt.Sprintf("%s (%s)", m.Name, m.UID))
	}
	p.options.Log.Info("members changed",
		zap.Strings("before", before.names()), zap.Strings("after", after.names()), zap.Strings("left", left))
}
