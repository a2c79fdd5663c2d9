// SPDX-License-Identifier: Apache-2.0

// Package admin serves, over plain HTTP, what operators and probes ask registry-lb: is it alive, is it ready, who are
// the members, who holds a name, and the metrics. Nothing here changes state.
package admin

import (
	"time"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// View is what there is to see. Its methods are called for each request, from several goroutines at once; they return
// values of the caller's own and do not block.
type View interface {
	// Members returns all members that are known, those that left a short while ago included, in any order.
	Members() []Member
	// Status describes the directory of holders.
	Status() Status
	// Locate says where a call about name goes now. It is false if there is no member.
	Locate(space shard.Space, name string) (Location, bool)
	// NotReady returns why calls should not be sent here, a line each. Ready: none.
	NotReady() []string
}

// State says what is thought of a member.
type State string

const (
	// Joining members are known but get no new keys yet.
	Joining State = "joining"
	// Live members get calls.
	Live State = "live"
	// Suspect members are there but do not answer, and are skipped.
	Suspect State = "suspect"
	// Left members are gone, and are shown for a while for who wonders where they are.
	Left State = "left"
)

// Member is one replica as it is shown.
type Member struct {
	// Name is the place in the ring: the pod's name, or the address.
	Name string `json:"name"`
	// UID is the life: another UID is another process.
	UID string `json:"uid"`
	// Addresses are the "host:port" addresses, the preferred one first.
	Addresses []string `json:"addresses"`
	// Node and Zone say where the member runs; empty: unknown.
	Node string `json:"node"`
	Zone string `json:"zone"`
	// State is what is thought of the member, Since when, and Reason why.
	State  State     `json:"state"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
	// SpiffeID is the identity that the member has shown; empty: none so far.
	SpiffeID string `json:"spiffe_id,omitempty"`
	// RingShare is which part of all new names the member gets, 0 to 1.
	RingShare float64 `json:"ring_share"`
	// Keys is how many names the member is known to hold; zero also if that is not known.
	Keys int `json:"keys,omitempty"`
	// InFlight is how many calls wait for the member's answer now, watches left out.
	InFlight int64 `json:"in_flight"`
}

// Status describes the directory of holders.
type Status struct {
	// Keys is how many living names the directory knows, KeysByMember how many of them each member holds.
	Keys         int
	KeysByMember map[string]int
	// DirectorySynced says that the directory has been compared with what the registries themselves have, DirectoryReason
	// why it has not, and LastListing when that was last done; zero: never.
	DirectorySynced bool
	DirectoryReason string
	LastListing     time.Time
	// DuplicateIDs are SPIFFE IDs that more than one member has, with those members.
	DuplicateIDs map[string][]string
	// TableChecksum is that of members and ring: registry-lb replicas that agree have the same.
	TableChecksum uint64
}

// Location is where a call about a key goes.
type Location struct {
	// Member is the member's name.
	Member string
	// Reason says who decided: "holder" (the directory), "path" (the request) or "ring".
	Reason string
	// Since is when a holder came to hold the key; zero if that is not known.
	Since time.Time
	// Expires is when the key goes unless it is refreshed; zero if it does not, or if that is not known.
	Expires time.Time
}
