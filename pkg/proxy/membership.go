// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// SetMembers replaces the set of members. Those that are ready get calls from now on; a newcomer gets keys that nobody
// holds after [Options.JoinDelay] only. Those that are not there or not ready any more get no calls, and their
// connections are closed when the calls in flight have had time to end. Members that stay keep their connections. If
// all members vanish at once, those that answer probes are kept for [Options.EmptyGrace]. The proxy takes over the
// slice.
func (p *Proxy) SetMembers(members []shard.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping() {
		return
	}
	p.known, p.described = true, members
	before := p.roster.Load()
	after := make(map[string]*member, min(len(members), p.options.MaxMembers))
	for _, described := range p.usable(members) {
		m, err := p.admit(before, described)
		if err != nil {
			p.options.Log.Error("a member can't be used", zap.String("member", described.Name), zap.Error(err))
			continue
		}
		m.unlisted = false
		after[m.Name] = m
	}
	if len(after) == 0 {
		after = p.keep(before, members)
	}
	p.publish(before, after)
}

// usable are the members that are ready. Of too many, all registry-lb replicas choose the same.
func (p *Proxy) usable(members []shard.Member) []shard.Member {
	ready := make([]shard.Member, 0, len(members))
	for _, m := range members {
		if m.Phase == shard.Ready {
			ready = append(ready, m)
		}
	}
	if len(ready) <= p.options.MaxMembers {
		return ready
	}
	slices.SortFunc(ready, func(a, b shard.Member) int { return strings.Compare(a.Name, b.Name) })
	p.options.Log.Warn("too many members: those with the greatest names are left out; have fewer replicas, or look at what the source lists",
		zap.String("source", p.options.Backends), zap.Int("members", len(ready)), zap.Int("limit", p.options.MaxMembers))
	return ready[:p.options.MaxMembers]
}

// keep returns who is kept though the source names nobody that is ready: a control plane that restarts forgets its
// members for a while, and a node that it can't see may be well. Those that say themselves that they are terminating
// are not kept, nor those that do not answer.
func (p *Proxy) keep(before *roster, members []shard.Member) map[string]*member {
	kept := make(map[string]*member)
	if p.options.EmptyGrace <= 0 {
		return kept
	}
	terminating := make(map[string]struct{})
	for _, m := range members {
		if m.Phase == shard.Terminating {
			terminating[m.Name] = struct{}{}
		}
	}
	started := false
	for name, m := range before.byName {
		if _, ok := terminating[name]; ok || m.suspect {
			continue
		}
		started = started || !m.unlisted
		m.unlisted = true
		kept[name] = m
	}
	if started {
		p.options.Log.Warn("all members vanished: those that answer are kept for a while",
			zap.Duration("empty_grace", p.options.EmptyGrace), zap.Int("kept", len(kept)))
		p.graces++
		grace := p.graces
		p.background.Go(func() { p.endGrace(grace) })
	}
	return kept
}

// endGrace drops after the grace who is still not listed, unless all were listed again and another grace has begun.
func (p *Proxy) endGrace(grace int) {
	if !p.sleep(context.Background(), p.options.EmptyGrace) {
		return
	}
	p.change(func(after map[string]*member) bool {
		if grace != p.graces {
			return false
		}
		maps.DeleteFunc(after, func(_ string, m *member) bool { return m.unlisted })
		return true
	})
}

// change changes the set of members for another reason than that their source says so. What apply does counts if it
// returns true.
func (p *Proxy) change(apply func(after map[string]*member) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping() {
		return
	}
	before := p.roster.Load()
	after := maps.Clone(before.byName)
	if apply(after) {
		p.publish(before, after)
	}
}

// admit returns the member that is described: the one that is known already, or a new one.
func (p *Proxy) admit(before *roster, described shard.Member) (*member, error) {
	known := before.byName[described.Name]
	if known != nil && known.is(described) {
		return known, nil
	}
	m, err := newMember(described, p.options.MaxMemberCalls, p.options.DialOptions)
	if err != nil {
		return nil, err
	}
	if known != nil {
		// A new life in the same place: the ring does not change.
		m.joined = known.joined
	}
	p.startProbes(m)
	p.startRenewals(m)
	p.joinLater(m)
	return m, nil
}

// joinLater gives m its place in the ring after the delay.
func (p *Proxy) joinLater(m *member) {
	if m.joined || p.options.JoinDelay <= 0 {
		m.joined = true
		return
	}
	p.background.Go(func() {
		if !p.sleep(m.life, p.options.JoinDelay) {
			return
		}
		p.change(func(after map[string]*member) bool {
			if after[m.Name] != m || m.suspect || m.joined {
				return false
			}
			m.joined = true
			return true
		})
	})
}

// suspect takes m, which does not answer, out of the set that calls go to; m goes on to be probed. What is in flight
// there is cut, so that it can go elsewhere: that is why the member begins a new life here.
func (p *Proxy) suspect(m *member, reason string) {
	p.change(func(after map[string]*member) bool {
		if after[m.Name] != m || m.suspect {
			return false
		}
		m.failed = true
		if m.unlisted {
			delete(after, m.Name)
			return true
		}
		again, err := newMember(m.Member, p.options.MaxMemberCalls, p.options.DialOptions)
		if err != nil {
			return false // what could be made once can be made again
		}
		again.suspect, again.reason = true, reason
		after[m.Name] = again
		p.startProbes(again)
		p.startRenewals(again)
		return true
	})
}

// recovered brings m back if it was suspect.
func (p *Proxy) recovered(m *member) {
	back := false
	p.change(func(after map[string]*member) bool {
		if after[m.Name] != m || !m.suspect {
			return false
		}
		m.suspect, m.reason, back = false, "", true
		p.joinLater(m)
		return true
	})
	if back {
		// What it holds could not be understood while it was out of the set.
		p.directory.listAgain()
	}
}

// publish makes after the members that calls go to.
func (p *Proxy) publish(before *roster, after map[string]*member) {
	both := maps.Clone(before.byName)
	if both == nil {
		both = make(map[string]*member, len(after))
	}
	maps.Copy(both, after)
	var gone []*member
	for name, m := range before.byName {
		if after[name] != m {
			gone = append(gone, m)
		}
	}
	current := newRoster(after)
	var live, joining []shard.Member
	// With newcomers only there is nobody to leave the new keys to meanwhile. They all join at once: if they did so one
	// after the other, keys would move.
	alone := !slices.ContainsFunc(current.all, func(m *member) bool { return m.joined })
	for _, m := range current.all {
		m.joined = m.joined || alone && !m.suspect
		if m.joined || current.desperate {
			live = append(live, m.Member)
		} else {
			joining = append(joining, m.Member)
		}
	}
	// Before anybody follows them: a listing that is complete before it is expected would be waited for in vain.
	p.directory.expect(current.all)
	// A call first asks the table for a route and then the roster for the member, so the roster has to have each
	// member that the table can name.
	transition := newRoster(both)
	transition.transition = true
	p.roster.Store(transition)
	p.table.SetMembers(live, joining)
	for _, m := range current.all {
		// The table does not take the ID of who is not in the set, which a suspect that has just answered is not yet.
		if id := m.id.Load(); id != nil {
			p.table.SetID(m.Name, *id)
		}
	}
	p.roster.Store(current)

	p.history.update(p.described, after)
	p.metrics.membersSet(p.options.Clock.Now(), p.history.count(), current.desperate)
	p.logChange(current)
	for _, m := range gone {
		p.retire(m)
	}
	close(before.superseded)
	close(transition.superseded)
}

// retire ends a life of a member here: watches are told at once. Calls in flight get time to end, unless the member
// does not answer.
func (p *Proxy) retire(m *member) {
	m.end()
	p.background.Go(func() {
		if !m.failed {
			p.letEnd(m)
		}
		m.close()
	})
}

// letEnd gives the calls in flight at m time to end, as long as m answers probes: it may have left because it hangs.
func (p *Proxy) letEnd(m *member) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if p.options.ProbeInterval > 0 {
		p.background.Go(func() {
			defer cancel()
			p.probeLeaver(ctx, m)
		})
	}
	p.sleep(ctx, leaveGrace)
}

// logChange writes the one line for a change of who gets calls.
func (p *Proxy) logChange(current *roster) {
	was, is := p.logged, current.describe()
	if slices.Equal(was, is) {
		return
	}
	p.logged = is
	p.options.Log.Info("members changed", zap.Int("members", len(is)),
		zap.Strings("before", without(was, is)), zap.Strings("after", without(is, was)))
}

// maxLoggedMembers is how many members one line names.
const maxLoggedMembers = 20

// without returns, for people, what is in one sorted list and not in the other.
func without(list, other []string) []string {
	rest := make([]string, 0, maxLoggedMembers+1)
	more := 0
	for _, text := range list {
		switch _, both := slices.BinarySearch(other, text); {
		case both:
		case len(rest) < maxLoggedMembers:
			rest = append(rest, text)
		default:
			more++
		}
	}
	if more > 0 {
		rest = append(rest, fmt.Sprintf("and %d more", more))
	}
	return rest
}
