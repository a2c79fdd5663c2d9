// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

var epoch = time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)

func members(names ...string) []Member {
	list := make([]Member, len(names))
	for i, name := range names {
		list[i] = Member{Name: name, UID: "uid of " + name, Addrs: []string{name + ":5002"}}
	}
	return list
}

// tableWith returns a table of 8 members with keys, each held by the member to which the ring gives it.
func tableWith(keys []Key) *Table {
	table := NewTable(clocktesting.NewFakePassiveClock(epoch))
	table.SetMembers(members(podNames(8)...), nil)
	for _, key := range keys {
		route, _ := table.Route(key, nil)
		table.Registered(key, Registration{
			Member:  route.Member,
			Owner:   "spiffe://example.org/ns/default/pod/" + key.Name,
			Expires: epoch.Add(10 * time.Minute),
		})
	}
	return table
}

func BenchmarkTableRoute(b *testing.B) {
	for _, size := range []int{1_000, 1_000_000} {
		keys := benchKeys(size)
		table := tableWith(keys)
		b.Run(fmt.Sprintf("keys=%d", size), func(b *testing.B) {
			var start atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := int(start.Add(7919)); pb.Next(); i++ {
					if route, _ := table.Route(keys[i%size], nil); route.Reason != ReasonHolder {
						b.Error("a key has no holder")
						return
					}
				}
			})
		})
	}
}

func BenchmarkTableRouteOfNewKey(b *testing.B) {
	for _, size := range []int{1_000, 1_000_000} {
		keys := benchKeys(2 * size)
		table := tableWith(keys[:size])
		b.Run(fmt.Sprintf("keys=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				table.Route(keys[size+i%size], nil)
			}
		})
	}
}

func BenchmarkTableRegistered(b *testing.B) {
	for _, size := range []int{1_000, 1_000_000} {
		keys := benchKeys(size)
		table := tableWith(keys)
		b.Run(fmt.Sprintf("keys=%d", size), func(b *testing.B) {
			registration := Registration{Member: podNames(1)[0], Owner: "spiffe://example.org/ns/default/pod/a", Expires: epoch}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				table.Registered(keys[i%size], registration)
			}
		})
	}
}

func BenchmarkTableSweep(b *testing.B) {
	table := tableWith(benchKeys(1_000_000))
	b.Run("keys=1000000", func(b *testing.B) {
		for b.Loop() {
			table.Sweep()
		}
	})
}

func BenchmarkTableListingEnd(b *testing.B) {
	keys := benchKeys(1_000_000)
	table := tableWith(keys)
	b.Run("keys=1000000", func(b *testing.B) {
		for b.Loop() {
			require.Zero(b, table.BeginListing(NSE).End())
		}
	})
}

// BenchmarkTableMemory reports bytes for each key. The time it takes is that of learning all of them.
func BenchmarkTableMemory(b *testing.B) {
	keys := benchKeys(1_000_000)
	for b.Loop() {
		before := heap()
		table := tableWith(keys)
		b.ReportMetric(float64(heap()-before)/float64(len(keys)), "bytes/key")
		runtime.KeepAlive(table)
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
