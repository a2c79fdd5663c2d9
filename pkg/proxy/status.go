// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// State is what a proxy makes of a member.
type State string

const (
	// StateJoining members get calls about keys that they hold, and no new keys yet.
	StateJoining State = "joining"
	// StateLive members get calls.
	StateLive State = "live"
	// StateSuspect members do not answer probes; they get no calls unless there is nobody else.
	StateSuspect State = "suspect"
	// StateLeft members get no calls: their source does not list them any more, or does not list them as ready.
	StateLeft State = "left"
)

// MemberStatus describes one member for people.
type MemberStatus struct {
	shard.Member
	// State is what the proxy makes of the member.
	State State
	// Since is when the member came into that state.
	Since time.Time
	// Reason says in a few words why it is in that state.
	Reason string
	// Share is the share of the ring that is the member's, from 0 to 1.
	Share float64
	// Keys is how many keys the member holds, as far as the directory knows.
	Keys int
	// InFlight is how many calls wait for the member's answer, watches left out.
	InFlight int64
	// SpiffeID is the member's identity; empty while it is not known.
	SpiffeID string
}

// Status describes a proxy for people.
type Status struct {
	DirectoryStatus
	// Keys is how many living keys the directory knows.
	Keys int
	// KeysByMember is how many of them each member holds; members that left a while ago are included.
	KeysByMember map[string]int
	// DuplicateIDs are SPIFFE IDs that more than one member has, with those members.
	DuplicateIDs map[string][]string
	// Checksum is that of ring and members: replicas of registry-lb that agree have the same.
	Checksum uint64
}

const (
	// leftKept is how long a member that is gone is still shown: long enough to be seen after an incident.
	leftKept = 10 * time.Minute
	// leftMax bounds how many of them are shown, however fast pods come and go.
	leftMax = 64
)

// history remembers the state of members and since when they are in it.
type history struct {
	clock   clock.PassiveClock
	members map[string]MemberStatus // by name
}

func newHistory(c clock.PassiveClock) history {
	return history{clock: c, members: make(map[string]MemberStatus)}
}

// state is what the proxy makes of m. The caller holds the proxy's lock of members.
func (m *member) state() State {
	switch {
	case m.suspect:
		return StateSuspect
	case !m.joined:
		return StateJoining
	default:
		return StateLive
	}
}

// update takes in what the source says and which members are in use.
func (h *history) update(described []shard.Member, used map[string]*member) {
	now := h.clock.Now()
	listed := make(map[string]struct{}, len(described))
	for _, d := range described {
		listed[d.Name] = struct{}{}
		if used[d.Name] == nil {
			reason := d.Phase.String()
			if d.Phase == shard.Ready {
				reason = "has no usable address"
			}
			h.set(MemberStatus{Member: d, State: StateLeft, Reason: reason, Since: now})
		}
	}
	for name, m := range used {
		listed[name] = struct{}{}
		reason := m.Phase.String()
		switch {
		case m.suspect:
			reason = m.reason
		case m.unlisted:
			reason = "kept though not listed as ready: all members vanished at once"
		}
		h.set(MemberStatus{Member: m.Member, State: m.state(), Reason: reason, Since: now})
	}
	for name, m := range h.members {
		if _, ok := listed[name]; ok {
			continue
		}
		m.State, m.Reason, m.Since = StateLeft, "gone", now
		h.set(m)
	}
	h.forget(now, listed)
}

func (h *history) set(m MemberStatus) {
	if before, ok := h.members[m.Name]; ok && before.UID == m.UID && before.State == m.State && before.Reason == m.Reason {
		m.Since = before.Since
	}
	h.members[m.Name] = m
}

// forget drops members that have been gone for long, and the oldest of too many.
func (h *history) forget(now time.Time, listed map[string]struct{}) {
	gone := make([]MemberStatus, 0, len(h.members))
	for name, m := range h.members {
		if _, ok := listed[name]; ok {
			continue
		}
		if now.Sub(m.Since) >= leftKept {
			delete(h.members, name)
			continue
		}
		gone = append(gone, m)
	}
	if len(gone) <= leftMax {
		return
	}
	slices.SortFunc(gone, func(a, b MemberStatus) int { return a.Since.Compare(b.Since) })
	for _, m := range gone[:len(gone)-leftMax] {
		delete(h.members, m.Name)
	}
}

// count returns the number of members in each state.
func (h *history) count() map[State]int {
	counts := map[State]int{StateJoining: 0, StateLive: 0, StateSuspect: 0, StateLeft: 0}
	for _, m := range h.members {
		counts[m.State]++
	}
	return counts
}

// list returns all members, sorted by name.
func (h *history) list(shares map[string]float64) []MemberStatus {
	list := make([]MemberStatus, 0, len(h.members))
	for _, m := range h.members {
		if m.State == StateLeft && m.Reason == "gone" && h.clock.Since(m.Since) >= leftKept {
			continue
		}
		if m.State == StateLive {
			m.Share = shares[m.Name]
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b MemberStatus) int { return strings.Compare(a.Name, b.Name) })
	return list
}
