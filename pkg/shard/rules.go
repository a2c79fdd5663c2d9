// SPDX-License-Identifier: Apache-2.0

package shard

// The rules by which an entry changes are functions of the entry and of what was heard. All that they need to know
// about members is which of the two that are named are here, which means that they may be given calls.

// Remap says why a key has another holder than before.
type Remap string

const (
	// NotRemapped says that the key has no other holder than before.
	NotRemapped Remap = ""
	// RemapLeft says that the holder before is not there any more.
	RemapLeft Remap = "left"
	// RemapMoved says that the holder before is still there: it could not be reached for a while, or another
	// registry-lb thought so.
	RemapMoved Remap = "moved"
)

// claim is what somebody says about a living key. What is zero is not said.
type claim struct {
	seat    seat
	owner   uint64
	expires instant
	// copied claims are about what the member itself has, where each has a store of its own: an old copy says nothing
	// about who holds the key now.
	copied bool
	// listed claims come from a listing, others from an event.
	listed bool
	// standing claims come from an event, but tell what was so before this registry-lb took calls.
	standing bool
	// read claims were read from the store after the last that is known about the key had happened.
	read bool
}

// moment is what else the rules look at.
type moment struct {
	attendance
	now        instant
	generation uint16
}

// attendance says which members may be given calls, and which of them had left a short time ago.
type attendance interface {
	here(s seat) bool
	back(s seat, now instant) bool
}

// registered is the entry after a Register through this registry-lb. It is the newest there is: calls about one key
// are not in flight at two members at once.
func (e entry) registered(c claim, at moment) (entry, Remap) {
	remap := e.remap(c.seat, at)
	if e.seat != c.seat {
		e.since = secondOf(at.now)
	}
	e.seat, e.expires = c.seat, c.expires
	if c.owner != 0 {
		e.owner = c.owner
	}
	e.dead, e.own, e.generation = false, tickOf(at.now), at.generation
	return e, remap
}

// unregistered is the entry after an Unregister through this registry-lb. It stays for a while as a dead one, lest an
// event that is older brings the key back.
func (e entry) unregistered(at moment) entry {
	return entry{space: e.space, remote: e.remote, expires: e.expires, dead: true, own: tickOf(at.now), generation: at.generation}
}

// newer says whether the claim is newer than what is known: a later Register has a later expiration time.
func (c claim) newer(e entry) bool { return e.expires != 0 && c.expires > e.expires }

// older says whether the claim is older than what is known.
func (c claim) older(e entry) bool { return c.expires != 0 && c.expires < e.expires }

// observed is the entry after an event of the watch, or an item of a listing, says that the key lives. It is believed,
// except that
//
//   - while own traffic is recent, neither the holder nor the death that it told of is called into question by what is
//     not newer; what was read from the store since then is newer unless its expiration time says otherwise;
//   - a member that is not live does not take a key from one that is: the event is older than its leaving; nor does a
//     stranger, unless the event is newer;
//   - an old copy does not take a key from a newer one, nor does one at a member that had left a short time ago, however
//     new it is: a process that hung carries out late what was in flight there;
//   - nor does an item of a listing that something newer has overtaken since the listing began.
//
// No exception protects a holder that is not live: then there is nothing to lose.
func (e entry) observed(c claim, at moment) (entry, Remap) {
	guarded := e.guarded(at.now) && !c.newer(e) && (!c.read || c.older(e))
	switch {
	case e.dead && guarded, c.overtaken(e):
		return e, NotRemapped
	case e.dead:
		e = entry{space: e.space, remote: e.remote}
	case c.seat == nobody || c.seat == e.seat && (c.seat != stranger || !c.newer(e)):
		e.generation = at.generation
		return e.updated(c, guarded), NotRemapped
	case at.here(e.seat) && (guarded || !c.countsAgainst(e, at)):
		return e, NotRemapped
	}
	remap := e.remap(c.seat, at)
	e.seat, e.own, e.since, e.generation = c.seat, 0, 0, at.generation
	if c.news() {
		e.since = secondOf(at.now)
		if c.seat == stranger {
			e.own = tickOf(at.now)
		}
	}
	return e.updated(c, false), remap
}

// news says whether the claim tells what has just happened. A listing, and the beginning of a watch, tell what is so, since
// whenever.
func (c claim) news() bool { return !c.listed && !c.standing }

// overtaken says whether the claim is an item of a listing, and something newer was heard while it was under way.
func (c claim) overtaken(e entry) bool { return c.listed && !c.read && !e.dead && c.older(e) }

// countsAgainst says whether the claim can take a key from a member that is here.
func (c claim) countsAgainst(e entry, at moment) bool {
	switch {
	case c.seat == stranger:
		return c.newer(e)
	case c.copied && (c.older(e) || at.back(c.seat, at.now)):
		return false
	default:
		return at.here(c.seat)
	}
}

// updated is the entry with what does not concern the holder taken over from c: if own traffic is recent, only what
// it left open.
func (e entry) updated(c claim, guarded bool) entry {
	if c.expires != 0 && (!guarded || e.expires == 0) {
		e.expires = c.expires
	}
	if c.owner != 0 && (!guarded || e.owner == 0) {
		e.owner = c.owner
	}
	return e
}

// survives says whether the entry stays after an event of the watch that the key was deleted as claim c describes it. It
// does if the event is older, or may be because own traffic is recent: then it is about an earlier life of the key. It
// does if another member is said to have held the key, unless that was later: the event is older than the move, or about
// an old copy. A deletion that is wrongly taken for an old one is made good by the next listing.
func (e entry) survives(c claim, at moment) bool {
	switch {
	case e.dead || c.older(e):
		return true
	case e.guarded(at.now) && (e.expires == 0 || c.expires == 0):
		return true
	}
	return c.seat != nobody && e.seat != nobody && c.seat != e.seat && !c.newer(e) && (c.copied || at.here(e.seat))
}

// remap says what it means that the key goes to the member in seat to.
func (e entry) remap(to seat, at moment) Remap {
	switch {
	case e.dead || e.seat < firstSeat || to < firstSeat || e.seat == to:
		return NotRemapped
	case at.here(e.seat):
		return RemapMoved
	default:
		return RemapLeft
	}
}
