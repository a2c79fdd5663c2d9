// SPDX-License-Identifier: Apache-2.0

// Package sandbox has the tests that NSM works as before when registry-lb and three registries stand where one registry
// stood.
//
// The SDK's sandbox runs whole domains in the test's process: nsmgr, forwarders, endpoints, clients, nsmgr-proxy and the
// registry's proxy, all of them the real chains behind gRPC servers on the loopback interface. Its registry is replaced
// by a registry-lb in front of three members, each the SDK's memory registry with a store of its own. The scenarios are
// those of the SDK (local and remote use, heal, refresh, expiration, other domains), and those that only several members
// have: one is lost, added, removed, or registry-lb itself restarts.
//
// After each scenario it is checked that every call came to the members through registry-lb, that no NSE or NS was
// registered at a second member while its first one lived, and that more than one member had something to do. The name
// of each NSE is chosen so that a certain member gets it.
//
// The chain element of the SDK that writes the resolver's configuration of the machine is in none of the chains here.
package sandbox
