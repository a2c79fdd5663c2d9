// SPDX-License-Identifier: Apache-2.0

//go:build unix

package proxy_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"k8s.io/utils/clock"

	"github.com/networkservicemesh/registry-lb/internal/identity"
	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// crowded is a member that has NSEs, all of one owner, and takes all calls.
type crowded struct {
	answering
	nses []*registry.NetworkServiceEndpoint
}

func (m *crowded) Register(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*registry.NetworkServiceEndpoint, error) {
	nse.PathIds = append(nse.GetPathIds(), m.ID())
	return m.answering.Register(ctx, nse)
}

func (m *crowded) Find(query *registry.NetworkServiceEndpointQuery, stream registry.NetworkServiceEndpointRegistry_FindServer) error {
	for _, nse := range m.nses {
		if err := stream.Send(&registry.NetworkServiceEndpointResponse{NetworkServiceEndpoint: nse}); err != nil {
			return err
		}
	}
	if query.GetWatch() {
		<-stream.Context().Done()
	}
	return nil
}

// cost is what calls have cost this process.
type cost struct {
	cpu           time.Duration
	allocs, bytes uint64
}

func spent(tb testing.TB) cost {
	tb.Helper()
	var usage unix.Rusage
	require.NoError(tb, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return cost{time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), memory.Mallocs, memory.TotalAlloc}
}

// BenchmarkHop is a refresh, with mutual TLS and the default policies, through a hop made of the SDK's elements as nsmgr is
// one, and through registry-lb. Client, hop and member are one process here; what the same calls cost when the client is
// connected to the member is taken off, so that the hop-... figures are the hop's own. It fails if registry-lb costs more
// than a quarter of the SDK's hop where 100 NSEs are known, or more than a twentieth where there are 5,000.
func BenchmarkHop(b *testing.B) {
	for _, goal := range []struct {
		nses  int
		times float64
	}{{100, 4}, {5000, 20}} {
		world := newMesh(b)
		owner := world.client(b, "nsmgr")
		member := &crowded{answering: answering{party: world.party(b, "registry-0")}}
		tell := textOf
		member.tell.Store(&tell)
		ids := []string{owner.ID(), "spiffe://k8s.nsm/ns/nsm-system/pod/registry-lb", member.ID()}
		known := make(map[string][]string, goal.nses)
		for i := range goal.nses {
			name := fmt.Sprintf("nse-%d", i)
			known[name] = ids
			member.nses = append(member.nses, &registry.NetworkServiceEndpoint{Name: name, PathIds: ids})
		}
		w := newWire(b)
		serveHop(b, w, identity.ServerCredentials(member.party), func(s *grpc.Server) {
			registry.RegisterNetworkServiceEndpointRegistryServer(s, member)
		})
		direct := w.Addr().String()
		front := world.front(b, proxy.Options{}, serverPolicies())
		front.SetMembers([]shard.Member{{Name: "registry-0", UID: "1", Addrs: []string{direct}}})
		require.Eventually(b, func() bool { return front.Status().Keys >= goal.nses }, patience, tick)
		own := front.party
		own.sign = identity.Tokens(front.party, 10*time.Minute, clock.RealClock{})

		costs := make(map[string]cost)
		for _, row := range []struct{ name, addr string }{
			{"SDK", world.sdkHop(b, own, direct, serverPolicies(), known)},
			{"registry-lb", front.addr},
		} {
			b.Run(fmt.Sprintf("%s/%d NSEs", row.name, goal.nses), func(b *testing.B) {
				through, past := owner.refresher(b, row.addr, member.nses), owner.refresher(b, direct, member.nses)
				through(0)
				past(0)
				runtime.GC()
				before := spent(b)
				n := 0
				for b.Loop() {
					through(n)
					n++
				}
				b.StopTimer()
				middle := spent(b)
				for i := range n {
					past(i)
				}
				after := spent(b)
				each := func(through, past uint64) uint64 { return (through - min(through, past)) / uint64(n) }
				c := cost{
					cpu:    max(0, (middle.cpu-before.cpu)-(after.cpu-middle.cpu)) / time.Duration(n),
					allocs: each(middle.allocs-before.allocs, after.allocs-middle.allocs),
					bytes:  each(middle.bytes-before.bytes, after.bytes-middle.bytes),
				}
				b.ReportMetric(float64(c.cpu.Microseconds()), "hop-cpu-us/op")
				b.ReportMetric(float64(c.allocs), "hop-allocs/op")
				b.ReportMetric(float64(c.bytes), "hop-B/op")
				costs[row.name] = c
				sdk, asked := costs["SDK"]
				if row.name == "SDK" || !asked {
					return
				}
				for what, times := range map[string]float64{
					"cpu":    float64(sdk.cpu) / float64(max(1, c.cpu)),
					"allocs": float64(sdk.allocs) / float64(max(1, c.allocs)),
					"B":      float64(sdk.bytes) / float64(max(1, c.bytes)),
				} {
					b.ReportMetric(times, "SDK-times-hop-"+what)
					if times < goal.times {
						b.Errorf("the SDK's hop has %.1f times the %s, which is less than %.0f times", times, what, goal.times)
					}
				}
			})
		}
	}
}

// refresher connects to addr and returns what refreshes one of the NSEs.
func (c *hopClient) refresher(b *testing.B, addr string, nses []*registry.NetworkServiceEndpoint) func(i int) {
	b.Helper()
	client := registry.NewNetworkServiceEndpointRegistryClient(
		c.connect(b, addr, grpc.WithPerRPCCredentials(token.NewPerRPCCredentials(c.sign))))
	path := *textOf(new(grpcmetadata.Path))
	return func(i int) {
		nse := nses[i%len(nses)].Clone()
		nse.PathIds = slices.Clone(nse.GetPathIds())
		_, err := client.Register(metadata.AppendToOutgoingContext(b.Context(), pathKey, path), nse)
		require.NoError(b, err)
	}
}
