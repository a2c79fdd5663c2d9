// SPDX-License-Identifier: Apache-2.0

// Package scenarios proves registry-lb on a real Kubernetes: real pods, real mutual TLS, and NSM's own registry client
// behind the Service registry:5002. Its tests run in a cluster that the command cluster has brought up; make e2e does all of
// that.
//
// The tests share the cluster and run one after the other. Each first makes what it needs of what it finds, so each can
// run alone as well.
package scenarios
