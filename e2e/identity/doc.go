// SPDX-License-Identifier: Apache-2.0

// Package identity tests registry-lb as it is deployed, with mutual TLS: SVIDs of a Workload API, real registry-k8s
// chains with their default policies on one store, and clients that are who they say, or not.
package identity
