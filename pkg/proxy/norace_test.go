// SPDX-License-Identifier: Apache-2.0

//go:build !race

package proxy_test

// raceDetector makes everything take several times as long.
const raceDetector = false
