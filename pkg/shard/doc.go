// SPDX-License-Identifier: Apache-2.0

// Package shard says which registry replica, or member, serves a key.
//
// Slices and maps that this package returns are shared with all who look at the same snapshot: they MUST NOT be
// changed. Nor may the slices in a [Member] that it was given.
//
// A [Ring] gives keys that nobody holds to members. A [Table] knows, besides, who holds the keys that live now, so that
// they stay where they are when members come. The package does no I/O, starts no goroutines, and is told the time.
//
// # The ring
//
// The circle of hashes is cut into 2048 strips, each a little circle of its own with 32 partitions, evenly spaced, at
// places 0 to 31. Each member has one point in each strip, at random, and a partition belongs to the point that follows
// it. A strip with 8 places, for example, where the points of A, B and C lie at 1.3, 5.6 and 2.9:
//
//	place    0    1   2   3   4   5   6   7
//	point          A    C           B
//
// A owns the places 0, 1, 6 and 7, C owns 2, and B owns 3, 4 and 5.
// When C leaves, place 2 goes to B, and nothing else happens: C's places go to
// whoever follows. When D comes with a point at 4.2, it takes places 3 and 4 from B, and nothing else happens. So a
// change moves only what the leaver had or the newcomer gets, and the table is a function of the points there are,
// whatever happened before. A key belongs to a strip and a place by the first 16 bits of its hash.
//
// The owners come from github.com/buraksezer/consistent, one instance for each strip. With its defaults (271
// partitions, 20 points for each member, a load bound of 1.25) it does not have these properties:
//
//   - The load bound hands a partition on to another member when its owner has more than 1.25 times the mean. Whether
//     it has depends on all other members. When one of 4 leaves, 5.2 % of the partitions move between members that
//     stay; with a bound of 1.05 and 8 members still 1.0 % with 16381 partitions and 200 points. Here the bound is so
//     high that it never binds. That is also why the library never panics for lack of room.
//   - Without the bound, balance is a matter of many points and partitions: the deviation of a member's share goes down
//     with the root of their number. 2048 points and 65536 partitions make it 1.8 % of the mean for 8 members and 2.8 %
//     for 64. The fullest of 64 has 1.065 times the mean on average; 1.15 times is more than five standard deviations
//     away.
//   - The library sorts all points again after each member, and so many points in one instance take seconds. One
//     point for each member and strip, and only of members that may own anything there, take milliseconds.
//   - If two points coincide, the library's answer depends on who was added last. Here the member with the greater
//     name has both points.
//
// What the ring does not guarantee: balance of keys, if they are few, or of calls, if some keys are called more often;
// the bound of 1.15 for more than 64 members; anything about where keys are that somebody holds.
//
// # The directory
//
// A [Table] learns who holds a key from, in this order of trust: Register and Unregister calls that succeeded through
// this registry-lb, the registries' watch, and, for a key that neither has told about, the path_ids of the request at
// hand. Only if all are silent, or name somebody who is not there, the ring decides.
//
// Events of the watch can come late, twice, in the wrong order or not at all. These are the rules:
//
//   - Own traffic is believed at once. For [GuardTime] afterwards, events that disagree do not count unless they are
//     newer. The one exception: if the holder has left, the event counts, because there is nothing to lose.
//   - Otherwise the event counts. The exceptions: a member that is not here does not take a key from one that is; a
//     deletion does not count if another member than the holder had the key. Such events are older than the move.
//   - An Unregister is remembered for [GuardTime], so that older events do not bring the key back.
//   - Each Register gives an NSE a later expiration time than the Register before: clients ask for none, so it is that
//     of their token, or as long as a token may live. So the expiration time is the version of an NSE, and tells an
//     event about own traffic, or about something older, from a newer one. Where two versions are equal, or there is
//     none (NSs have none), nobody knows, and the event counts as older.
//   - In a partitioned store, a member that hung may have a copy of what is held elsewhere now. An older one does not
//     count, nor for [LeaveGrace] does any of a member that is back: it carries out late what was in flight there.
//   - What a listing contains that began after own traffic was over is newer, unless its version says otherwise.
//   - A complete listing ([Listing]) makes good for deletions that were lost.
//   - Entries go with their NSE: by Unregister, event, listing, or when the expiration time has passed ([Table.Sweep]).
//
// So, if events take less than [GuardTime], and the expiration times of an NSE grow, no event undoes what happened later
// through this registry-lb, and none that is newer is ignored. If a client's tokens suddenly end earlier than before, or
// the clocks of those who choose expiration times differ by more than there is between two calls about one NSE, what
// happens elsewhere is ignored for up to [GuardTime] after own traffic.
//
// Two registry-lb replicas with different views of the members do not give one key two holders. A member that one of
// them does not take for live yet is joining for the other, and gets the keys that it holds. If it has left for one of
// them only, the key goes where the ring without it says, and the other hears of that. If one of them does not know it
// at all, and hears that it has just got a key, it is a stranger: the key is [Route.Awaited] for [StrangerGrace]. What was
// so before it took calls ([Record.Standing]) is about a member that has left, as far as anybody can tell. That
// takes a store whose watch tells about members that one does not know, which a partitioned one does not have: there,
// the time after which newcomers get new keys has to be longer than views differ.
//
// What the directory does not guarantee: that it is complete (it begins empty, and says so to nobody: the caller has to
// know whether the first listing has ended); that a holder which came back as a new process remembers its keys.
package shard
