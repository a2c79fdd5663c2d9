// SPDX-License-Identifier: Apache-2.0

// Package chaos takes a registry apart while clients use it, and checks what they saw.
//
// Everything runs in processes of its own on the loopback interface: eight replicas of the real registry-k8s (this
// test binary, started again), which share a store that the test serves as an API server would, two registry-lb (the
// binary, built once), and in the test itself two hundred clients of NSM's SDK. Replicas are killed, stopped,
// restarted and cut off; so are registry-lb. The history of all calls is checked afterwards: see history_test.go
// for what is recorded, linear_test.go for the model, and verdict_test.go for the rest of the promises.
//
// The variables CHAOS_SEED, CHAOS_DURATION and CHAOS_CLIENTS change the course of TestChaos. Each run prints its seed:
// the same seed gives the same faults at about the same times, though not the same interleaving.
//
// Nothing else should run on the machine while benchmarks do: with two cores, what is measured then is how long a process
// waits for one.
package chaos
