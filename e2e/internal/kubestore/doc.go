// SPDX-License-Identifier: Apache-2.0

// Package kubestore keeps NSM's custom resources in memory as an API server keeps them in etcd, for tests with several
// real registry-k8s replicas on one store.
//
// The fake clientsets of client-gen accept every write, so that races between replicas never show. A [Store] has the
// optimistic concurrency of the real thing:
//
//   - one resourceVersion for the whole store, which only grows;
//   - Create fails with AlreadyExists, and makes a name from generateName;
//   - Update fails with Conflict if the resourceVersion is not the current one, and does nothing at all, not even an
//     event, if nothing changes;
//   - Delete honours the preconditions on UID and resourceVersion;
//   - a watch first sends ADDED for all there is, then events in the order in which things happened, and ends when
//     its time is over; what happens until the next one begins is not replayed, so deletes in between are lost.
//
// Objects are copied on the way in and on the way out. The copies keep all fields of an NSE, as JSON does; the DeepCopy
// of the API types does not (it drops path_ids and initial_registration_time).
//
// # What it does not do
//
// Selectors, patches, and watches or lists at a given resourceVersion are refused. Nothing limits the rate of calls, and
// a watcher that does not read is never cut off.
package kubestore
