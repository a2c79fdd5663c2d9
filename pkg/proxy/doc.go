// SPDX-License-Identifier: Apache-2.0

// Package proxy takes the calls of an NSM registry and sends each to the member that serves its key.
//
// A [Proxy] is given whole sets of members ([Proxy.SetMembers]), keeps connections to them, and asks a
// [shard.Table] which one serves a key. Its two servers are ordinary NSM chain elements
// (registry.NetworkServiceEndpointRegistryServer and registry.NetworkServiceRegistryServer), so they can stand
// at the end of a chain of one's own; after a call that succeeded they call the next element, as the SDK's
// connect element does.
//
// # Where a call goes
//
//	Register, Unregister     the member of the name
//	Find by name             the member of the name
//	Find without a name      shared store: the member of the first network service name asked for;
//	                         partitioned store: all members, merged
//
// # What is done about failures
//
// This is the whole doctrine; every number in it is a named constant or an option.
//
//   - A status that a member itself gave goes back as it is: code, message, details, headers, trailers. It is
//     never retried, whatever the code, because trying elsewhere would move a key whose holder is alive.
//   - A call that no member answered (refused, reset, connection closed because the member left) is sent again:
//     to the same member once, if its connection came back by itself, and else to the member that the ring
//     names when the unreachable ones are left out, so that every registry-lb picks the same one. Register and
//     Unregister of one NSE are idempotent, so a call that had reached the lost member does no harm.
//   - When no member is left to try, the round starts anew after a pause, for as long as the caller's deadline
//     lasts, and for [Options.NoBackendWait] at most. The same bound holds while there is no member at all.
//   - A Find without watch is read to its end before the first response goes to the client, because NSM
//     clients take an error in the middle of a list for its end.
//   - A watch by name ends with Unavailable when its member leaves: that is how an NSE's client learns that it
//     must register again. Every other watch outlives its members: it is opened elsewhere, what the client
//     knows already is not sent again, and what vanished meanwhile is reported as deleted.
//
// # What is done about certificates
//
// Connections to members are replaced when [Proxy.Renew] says so, and at half of what is left of the certificate that the
// member showed on them. New ones are made beside the old, and these are closed when nothing goes over them any more, so
// neither a call nor a watch is dropped for it, and calls about one name keep their order.
//
// # What is not guaranteed
//
// Two calls on one NSE that a client makes at the same time have no order. Responses of different members in
// one Find of a partitioned store have no order.
package proxy
