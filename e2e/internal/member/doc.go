// SPDX-License-Identifier: Apache-2.0

// Package member runs registry replicas in the test's own process: the real chains of registry-k8s or of the SDK's
// memory registry, each behind a gRPC server on the loopback interface and with a SPIFFE ID of its own.
//
// A [Member] is one life of a replica: it starts, and ends by [Member.Stop] or [Member.Crash]; a restart is another
// member of the same name. A [Recorder] that several members share tells which of them received a call.
package member
