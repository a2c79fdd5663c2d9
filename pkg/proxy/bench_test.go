// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"go.uber.org/zap"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

// BenchmarkRegister compares a Register at a member with one through the proxy.
func BenchmarkRegister(b *testing.B) {
	m := startScripted(b, "a")
	m.set(func(c *call) error { return c.SendMsg(c.request) })
	front := startFront(b, proxy.Options{Log: zap.NewNop()}, m.Member)
	for _, row := range []struct{ name, addr string }{{"direct", m.Addrs[0]}, {"through the proxy", front.addr}} {
		b.Run(row.name, func(b *testing.B) {
			client := registry.NewNetworkServiceEndpointRegistryClient(dial(b, row.addr))
			b.ReportAllocs()
			var number atomic.Uint64
			b.RunParallel(func(pb *testing.PB) {
				nse := &registry.NetworkServiceEndpoint{
					Name: fmt.Sprint("nse-", number.Add(1)), NetworkServiceNames: []string{"ns"}, Url: "tcp://10.0.0.1:5001",
				}
				for pb.Next() {
					if _, err := client.Register(b.Context(), nse); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
