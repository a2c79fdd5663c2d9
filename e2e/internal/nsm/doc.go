// SPDX-License-Identifier: Apache-2.0

// Package nsm is what the commands of NSM have in common: the SVID from the Workload API, mutual TLS, tokens, and a gRPC
// server for a registry. The commands that run as pods in the cluster of the tests are made of it.
package nsm
