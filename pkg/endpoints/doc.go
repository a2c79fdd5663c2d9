// SPDX-License-Identifier: Apache-2.0

// Package endpoints says which replicas a registry has. A [Source] follows a Kubernetes Service, a file or a fixed
// list, and gives whole snapshots of members: sorted by name, merged, without duplicates. It knows no gRPC, and it
// does not ask members whether they live.
//
// # Doctrine
//
// A member is a pod: its place is the pod's name, its life is the pod's UID, never its IP. Where no pod stands behind
// an endpoint, both are the address.
//
// What cannot be read changes nothing: while a source cannot be read, or reads nonsense, the last good snapshot stays
// and [Source.Err] says why. Only a source that was read and is empty makes an empty snapshot.
//
// Bursts are collected: a change is given to the caller after a short quiet period, and within a fixed time however
// long the burst goes on.
//
// # Not guaranteed
//
// A snapshot is what the source said a moment ago: the member may be gone already, and two processes that follow
// the same source may see a change some time apart.
package endpoints
