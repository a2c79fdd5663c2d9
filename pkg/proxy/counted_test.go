// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"net"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// value is the sum of the samples of a metric that have these labels.
func value(tb testing.TB, g prometheus.Gatherer, metric string, labels map[string]string) float64 {
	tb.Helper()
	families, err := g.Gather()
	require.NoError(tb, err)
	sum := 0.0
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, sample := range family.GetMetric() {
			matching := 0
			for _, pair := range sample.GetLabel() {
				if want, ok := labels[pair.GetName()]; ok && pair.GetValue() == want {
					matching++
				}
			}
			if matching == len(labels) {
				sum += sample.GetCounter().GetValue() + sample.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// eventuallyCounted waits until n calls of a service have ended with code.
func eventuallyCounted(tb testing.TB, g prometheus.Gatherer, f flavour, code string, n float64) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		return value(tb, g, "registry_lb_requests_total", map[string]string{"service": f.service, "code": code}) == n
	}, patience, tick)
}

// dialTCP returns a plain connection.
func dialTCP(tb testing.TB, addr string) net.Conn {
	tb.Helper()
	c, err := (&net.Dialer{}).DialContext(within(tb), "tcp", addr)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}
