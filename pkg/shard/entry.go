// SPDX-License-Identifier: Apache-2.0

package shard

import "time"

const (
	// GuardTime is how long own traffic about a key outweighs events of the watch that say otherwise: an event that
	// was on its way when the call was answered is older than the answer. Events take well under a second, if nothing
	// stalls; the views that two registry-lb replicas have of the members may be five seconds apart. Ten is twice
	// that, and still short compared with the minute after which registry-k8s repeats everything.
	GuardTime = 10 * time.Second

	// ExpiryMargin is how long an entry outlives the expiration time of its NSE. The registry removes the NSE by its
	// own clock. An entry that stays too long costs memory, one that goes too early may cost a living NSE its place.
	ExpiryMargin = 10 * time.Second

	// StrangerGrace is how long a key is kept for a member that only another registry-lb knows yet, after it got the key:
	// views of the members may be five seconds apart.
	StrangerGrace = 5 * time.Second

	// LeaveGrace is how long the keys of a member that left are remembered as its own. If it comes back in time, those
	// that have not found another holder are still its own, which is what they are if it had only been slow. After
	// the usual token lifetime, which is ten minutes, every living NSE has been refreshed elsewhere.
	LeaveGrace = 10 * time.Minute
)

// entry is what the directory knows about one key.
type entry struct {
	// seat is the number of the member that holds the key; nobody if it is not known.
	seat seat
	// generation is when the key was last seen alive, counted in listings.
	generation uint16
	// space is that of the key.
	space Space
	// remote keys are those of other domains, which no listing of this one contains.
	remote bool
	// dead entries remember that the key was unregistered here a moment ago.
	dead bool
	// owner stands for the SPIFFE ID that registered the key; 0 if it is not known.
	owner uint64
	// expires is the NSE's expiration time as the store has it; 0 if it has none. Each Register sets a later one than
	// the Register before, so it is the version of what is known, too.
	expires instant
	// own is when own traffic last told about the key; 0 if it never did, or if something newer was heard since. If a
	// stranger holds the key, it is when that was heard; 0 if it was so before, as far as is known.
	own tick
	// since is when the holder came to hold the key; 0 if it did so before anybody told about it here. No rule looks at
	// it: it is for people.
	since second
}

// seat is the number of a member in the directory.
type seat uint16

const (
	// nobody is no member's seat.
	nobody seat = iota
	// stranger is the seat of members that other registry-lb replicas know and this one does not.
	stranger
	// firstSeat is the first of a member.
	firstSeat
)

// generations is how many generations are told apart. A key that was not seen alive in half as many listings counts
// as seen again: it has the next half to die in.
const generations = 1 << 12

// aliveSince says whether the key was seen alive in this generation or a later one.
func (e entry) aliveSince(generation uint16) bool {
	return (e.generation-generation)%generations < generations/2
}

// guarded says whether own traffic about the key is so recent that it outweighs events. Should the clock have been
// set back, the future counts as recent only as far as the past does.
func (e entry) guarded(now instant) bool {
	age := tickOf(now).since(e.own)
	return e.own != 0 && e.seat != stranger && -GuardTime < age && age < GuardTime
}

// awaited says whether the member that holds the key is a stranger who may be about to be introduced.
func (e entry) awaited(now instant) bool {
	age := tickOf(now).since(e.own)
	return e.seat == stranger && !e.dead && e.own != 0 && -StrangerGrace < age && age < StrangerGrace
}

// over says whether the entry has nothing to say any more.
func (e entry) over(now instant) bool {
	if e.dead {
		return !e.guarded(now)
	}
	return e.expires != 0 && now.since(e.expires) > ExpiryMargin
}
