// SPDX-License-Identifier: Apache-2.0

// Package manifests tests the Helm chart and the kustomize component without a cluster: what they render, what they
// refuse, and that they agree with the binary about its variables and metrics.
package manifests
