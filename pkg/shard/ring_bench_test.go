// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"fmt"
	"testing"
)

// podNames returns n names as a StatefulSet gives them.
func podNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("registry-k8s-%d", i)
	}
	return names
}

func benchKeys(n int) []Key {
	keys := make([]Key, n)
	for i := range keys {
		keys[i] = NSEKey(fmt.Sprintf("nse-firewall-vpp-7d9f8b6c5d-%05d", i))
	}
	return keys
}

func BenchmarkRingLocate(b *testing.B) {
	keys := benchKeys(1024)
	for _, n := range []int{8, 64} {
		ring := NewRing(podNames(n))
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				ring.Locate(keys[i%len(keys)])
			}
		})
	}
}

func BenchmarkRingLocateExcept(b *testing.B) {
	for _, n := range []int{8, 64} {
		ring := NewRing(podNames(n))
		key := NSEKey("nse-1")
		failed, _ := ring.Locate(key)
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			for b.Loop() {
				ring.LocateExcept(key, func(name string) bool { return name == failed })
			}
		})
	}
}

func BenchmarkRing(b *testing.B) {
	for _, n := range []int{8, 64, 1000} {
		names := podNames(n)
		fewer := NewRing(names[:n-1])
		all := NewRing(names)
		b.Run(fmt.Sprintf("new/members=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				NewRing(names)
			}
		})
		b.Run(fmt.Sprintf("join/members=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fewer.Next(names)
			}
		})
		b.Run(fmt.Sprintf("leave/members=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				all.Next(names[:n-1])
			}
		})
	}
}
