// SPDX-License-Identifier: Apache-2.0

// Package model has the tests of the guarantee that a key moves only when its replica leaves.
//
// A model knows which member holds each NSE: the one that last answered a Register. Random clients, members and
// balancers do what they do in a cluster, and after every step the real system, which is made of pkg/proxy and the real
// registry chains, must agree with the model:
//
//   - a call about a living NSE reaches the member that holds it, and nobody else, unless that member has left;
//   - no NSE is held by two members that nobody saw leave;
//   - what is registered is found, and what is unregistered is not.
//
// A failure prints the steps that led to it, shortened to the few that matter, and the seed:
//
//	go test ./model -run TestSharedStore -rapid.seed=N
//
// More steps, for a night:
//
//	go test ./model -run 'Store$' -rapid.checks=10000 -timeout=12h
package model
