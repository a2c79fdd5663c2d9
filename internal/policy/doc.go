// SPDX-License-Identifier: Apache-2.0

// Package policy decides whether a call may go on, by the policy files that registry-k8s uses.
//
// NSM's authorize element (sdk, pkg/registry/common/authorize) keeps a map from the name of every NSE to the
// path_ids it was registered with, and gives a copy of the whole map to OPA at each call, although
// client_allowed.rego looks up one name. Here the caller passes that one entry, so a check costs the same
// whatever number of NSEs there is, and the entry may come from a directory that outlives a replica.
//
// A policy whose text is, byte for byte, one of those that NSM ships is decided in Go, and every other by OPA
// through the SDK's own code. The Go rules are not a second opinion on security: they answer what OPA would
// answer, down to its oddities, and where an input leaves the part of the language that they cover they hand
// the policy to OPA. Tests hold the two against each other over forged, broken and random tokens.
package policy
