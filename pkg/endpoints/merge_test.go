// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

type sliceSet = []*discoveryv1.EndpointSlice

func TestMerge(t *testing.T) {
	const (
		v4    = "10.0.0.1"
		other = "10.0.0.2"
		v6    = "fd00::1"
	)
	nilPort := discoveryv1.EndpointPort{Name: ptr.To("registry")}
	for _, tc := range []struct {
		sentence string
		slices   sliceSet
		port     Port
		want     []string
		problems []string
	}{
		// Emptiness.
		{sentence: "no slice gives no member", port: byRegistry},
		{sentence: "the placeholder slice of a Service without pods, which has no ports, is no problem", port: byRegistry,
			slices: sliceSet{slice("a", ports())}},

		// Identity.
		{sentence: "a pod is known by its name and lives by its UID", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, ready))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "without targetRef the address is the name and the life", port: byRegistry,
			slices: sliceSet{slice("a", bare(v4, ready))},
			want:   []string{"10.0.0.1:5002 ready 10.0.0.1:5002"}},
		{sentence: "a targetRef that is no pod does not name the member", port: byRegistry,
			slices: sliceSet{slice("a", bare(v4, func(e *discoveryv1.Endpoint) {
				e.TargetRef = &corev1.ObjectReference{Kind: "Node", Name: "n1", UID: "u"}
			}))},
			want: []string{"10.0.0.1:5002 ready 10.0.0.1:5002"}},
		{sentence: "a pod without a UID lives by its first address", port: byRegistry,
			slices: sliceSet{slice("b", ipv6(), pod("r-0", v6)), slice("a", pod("r-0", v4))},
			want:   []string{"r-0/10.0.0.1:5002 ready 10.0.0.1:5002 [fd00::1]:5002"}},
		{sentence: "a targetRef to a pod without a name does not name the member", port: byRegistry,
			slices: sliceSet{slice("a", pod("/u0", v4))},
			want:   []string{"10.0.0.1:5002 ready 10.0.0.1:5002"}},
		{sentence: "members are sorted by name and not by slice", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-2/u2", other)), slice("b", pod("r-1/u1", v4))},
			want:   []string{"r-1/u1 ready 10.0.0.1:5002", "r-2/u2 ready 10.0.0.2:5002"}},

		// Conditions: ready, serving, terminating.
		{sentence: "nil conditions mean ready", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, conditions("---")))}, want: []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "ready with nil serving means ready", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, conditions("t--")))}, want: []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "nil ready with serving means ready", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, conditions("-t-")))}, want: []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "all nil and terminating false means ready", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, conditions("--f")))}, want: []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "ready false with nil serving means not ready", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, conditions("f--")))}, want: []string{"r-0/u0 not ready 10.0.0.1:5002"}},
		{sentence: "ready false wins over serving true", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, conditions("ftf")))}, want: []string{"r-0/u0 not ready 10.0.0.1:5002"}},
		{sentence: "nil ready with serving false means not ready", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, conditions("-f-")))}, want: []string{"r-0/u0 not ready 10.0.0.1:5002"}},
		{sentence: "publishNotReadyAddresses does not make a pod ready that is not serving", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, conditions("tff")))}, want: []string{"r-0/u0 not ready 10.0.0.1:5002"}},
		{sentence: "publishNotReadyAddresses does not hide that a pod is terminating", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, conditions("ttt")))}, want: []string{"r-0/u0 terminating 10.0.0.1:5002"}},
		{sentence: "terminating with all else nil means terminating", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, conditions("--t")))}, want: []string{"r-0/u0 terminating 10.0.0.1:5002"}},
		{sentence: "terminating wins over not ready", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, conditions("fft")))}, want: []string{"r-0/u0 terminating 10.0.0.1:5002"}},
		{sentence: "when only terminating endpoints are left they stay members", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, terminating), pod("r-1/u1", other, terminating))},
			want:   []string{"r-0/u0 terminating 10.0.0.1:5002", "r-1/u1 terminating 10.0.0.2:5002"}},

		// Ports.
		{sentence: "the port is chosen by name among several", port: byRegistry,
			slices: sliceSet{slice("a", ports(port("metrics", 9090), port("registry", 5002)), pod("r-0/u0", v4))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "the port is chosen by number among several", port: Port{Number: 5003},
			slices: sliceSet{slice("a", ports(port("a", 5002), port("b", 5003)), pod("r-0/u0", v4))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5003"}},
		{sentence: "without a choice the only port is taken", port: Port{},
			slices: sliceSet{slice("a", ports(port("whatever", 7000)), pod("r-0/u0", v4))},
			want:   []string{"r-0/u0 ready 10.0.0.1:7000"}},
		{sentence: "without a choice a port without a name is taken", port: Port{},
			slices: sliceSet{slice("a", ports(discoveryv1.EndpointPort{Port: ptr.To[int32](7000)}), pod("r-0/u0", v4))},
			want:   []string{"r-0/u0 ready 10.0.0.1:7000"}},
		{sentence: "without a choice several ports are ambiguous", port: Port{},
			slices:   sliceSet{slice("a", ports(port("registry", 5002), port("metrics", 9090)), pod("r-0/u0", v4))},
			problems: []string{`EndpointSlice "nsm-system/a": which port to use is ambiguous, there is "registry" (5002), "metrics" (9090): add :name or :number to the Service`}},
		{sentence: "without a choice a UDP port beside the TCP port is not ambiguous", port: Port{},
			slices: sliceSet{slice("a", ports(udp(port("dns", 53)), port("registry", 5002)), pod("r-0/u0", v4))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "a UDP port with the right name is not the port", port: byRegistry,
			slices:   sliceSet{slice("a", ports(udp(port("registry", 5002))), pod("r-0/u0", v4))},
			problems: []string{`EndpointSlice "nsm-system/a": no TCP port is called "registry", there is none`}},
		{sentence: "an explicit TCP protocol is TCP", port: byRegistry,
			slices: sliceSet{slice("a", ports(discoveryv1.EndpointPort{Name: ptr.To("registry"), Port: ptr.To[int32](5002),
				Protocol: ptr.To(corev1.ProtocolTCP)}), pod("r-0/u0", v4))},
			want: []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "a slice without ports has no port to choose", port: Port{},
			slices:   sliceSet{slice("a", ports(), pod("r-0/u0", v4))},
			problems: []string{`EndpointSlice "nsm-system/a": there is no TCP port`}},
		{sentence: "a slice without ports does not limit a port given by number", port: Port{Number: 5002},
			slices: sliceSet{slice("a", ports(), pod("r-0/u0", v4))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "a null port with the right name has no number", port: byRegistry,
			slices:   sliceSet{slice("a", ports(nilPort), pod("r-0/u0", v4))},
			problems: []string{`EndpointSlice "nsm-system/a": port "registry" has no number`}},
		{sentence: "a null port stands for all ports when a number is given", port: Port{Number: 5002},
			slices: sliceSet{slice("a", ports(nilPort), pod("r-0/u0", v4))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "a port without a name does not have the wanted name", port: byRegistry,
			slices:   sliceSet{slice("a", ports(discoveryv1.EndpointPort{Port: ptr.To[int32](5002)}), pod("r-0/u0", v4))},
			problems: []string{`EndpointSlice "nsm-system/a": no TCP port is called "registry", there is "" (5002)`}},
		{sentence: "a renamed port is reported with what there is instead", port: byRegistry,
			slices:   sliceSet{slice("a", ports(port("grpc", 5002)), pod("r-0/u0", v4))},
			problems: []string{`EndpointSlice "nsm-system/a": no TCP port is called "registry", there is "grpc" (5002)`}},
		{sentence: "a missing number is reported with what there is instead", port: Port{Number: 5002},
			slices:   sliceSet{slice("a", ports(port("grpc", 5003)), pod("r-0/u0", v4))},
			problems: []string{`EndpointSlice "nsm-system/a": no TCP port has the number 5002, there is "grpc" (5003)`}},
		{sentence: "a slice with the renamed port does not harm the slice that still has the old name", port: byRegistry,
			slices: sliceSet{slice("a", ports(port("grpc", 5002)), pod("r-0/u0", v4)), slice("b", pod("r-0/u0", v4))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002"},
			problems: []string{
				`EndpointSlice "nsm-system/a": no TCP port is called "registry", there is "grpc" (5002)`}},
		{sentence: "one port name with another number in each slice gives each pod its own", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4)), slice("b", ports(port("registry", 6002)), pod("r-1/u1", other))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002", "r-1/u1 ready 10.0.0.2:6002"}},
		{sentence: "a pod in two slices with two port numbers, while the target port changes, keeps both", port: byRegistry,
			slices: sliceSet{slice("b", ports(port("registry", 6002)), pod("r-0/u0", v4)), slice("a", pod("r-0/u0", v4))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002 10.0.0.1:6002"}},
		{sentence: "a port number out of range is not used", port: byRegistry,
			slices:   sliceSet{slice("a", ports(port("registry", 70000)), pod("r-0/u0", v4))},
			problems: []string{`EndpointSlice "nsm-system/a": port "registry" has no number`}},

		// Families and addresses.
		{sentence: "a dual-stack pod is one member with IPv4 first", port: byRegistry,
			slices: sliceSet{slice("six", ipv6(), pod("r-0/u0", v6)), slice("four", pod("r-0/u0", v4))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002 [fd00::1]:5002"}},
		{sentence: "a dual-stack pod that one family does not show ready yet is ready", port: byRegistry,
			slices: sliceSet{slice("six", ipv6(), pod("r-0/u0", v6, notReady)), slice("four", pod("r-0/u0", v4, ready))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002 [fd00::1]:5002"}},
		{sentence: "a dual-stack pod that one family shows terminating is terminating", port: byRegistry,
			slices: sliceSet{slice("six", ipv6(), pod("r-0/u0", v6, terminating)), slice("four", pod("r-0/u0", v4, ready))},
			want:   []string{"r-0/u0 terminating 10.0.0.1:5002 [fd00::1]:5002"}},
		{sentence: "dual stack without pods is two members, as nothing joins them", port: byRegistry,
			slices: sliceSet{slice("six", ipv6(), bare(v6)), slice("four", bare(v4))},
			want:   []string{"10.0.0.1:5002 ready 10.0.0.1:5002", "[fd00::1]:5002 ready [fd00::1]:5002"}},
		{sentence: "an IPv6 address has one spelling", port: byRegistry,
			slices: sliceSet{slice("a", ipv6(), bare("FD00:0::1")), slice("b", ipv6(), bare("fd00:0:0:0:0:0:0:1"))},
			want:   []string{"[fd00::1]:5002 ready [fd00::1]:5002"}},
		{sentence: "the address in a slice of names is a host name", port: byRegistry,
			slices: sliceSet{slice("a", family(discoveryv1.AddressTypeFQDN), bare("Registry-0.example.org"))},
			want:   []string{"registry-0.example.org:5002 ready registry-0.example.org:5002"}},
		{sentence: "a name comes after the addresses of a pod", port: byRegistry,
			slices: sliceSet{slice("a", family(discoveryv1.AddressTypeFQDN), pod("r-0/u0", "r0.example.org")), slice("b", ipv6(), pod("r-0/u0", v6))},
			want:   []string{"r-0/u0 ready [fd00::1]:5002 r0.example.org:5002"}},
		{sentence: "of several addresses of an endpoint the first counts", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", "", addresses(v4, other)))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "an endpoint without an address is left out", port: byRegistry,
			slices:   sliceSet{slice("a", pod("r-0/u0", "", addresses()), pod("r-1/u1", other))},
			want:     []string{"r-1/u1 ready 10.0.0.2:5002"},
			problems: []string{`EndpointSlice "nsm-system/a": endpoint of pod "r-0" has no address`}},
		{sentence: "an address that is none is left out", port: byRegistry,
			slices:   sliceSet{slice("a", pod("r-0/u0", "10.0.0.256"), pod("r-1/u1", other))},
			want:     []string{"r-1/u1 ready 10.0.0.2:5002"},
			problems: []string{`EndpointSlice "nsm-system/a": endpoint of pod "r-0": "10.0.0.256" is no IPv4 address`}},
		{sentence: "an address of the other family is left out", port: byRegistry,
			slices:   sliceSet{slice("a", ipv6(), bare(v4))},
			problems: []string{`EndpointSlice "nsm-system/a": endpoint: "10.0.0.1" is no IPv6 address`}},
		{sentence: "an address that is nobody's is left out", port: byRegistry,
			slices:   sliceSet{slice("a", bare("0.0.0.0"))},
			problems: []string{`EndpointSlice "nsm-system/a": endpoint: 0.0.0.0 is not the address of one host`}},
		{sentence: "a name that is none is left out", port: byRegistry,
			slices:   sliceSet{slice("a", family(discoveryv1.AddressTypeFQDN), bare("-bad-"))},
			problems: []string{`EndpointSlice "nsm-system/a": endpoint: "-bad-" is neither an IP address nor a host name`}},
		{sentence: "an unknown family is left out", port: byRegistry,
			slices:   sliceSet{slice("a", family("IPv9"), bare("9.9"))},
			problems: []string{`EndpointSlice "nsm-system/a": endpoint: "9.9" is no IPv9 address`}},
		{sentence: "a bad address in one family leaves the other", port: byRegistry,
			slices:   sliceSet{slice("a", pod("r-0/u0", "nonsense")), slice("b", ipv6(), pod("r-0/u0", v6))},
			want:     []string{"r-0/u0 ready [fd00::1]:5002"},
			problems: []string{`EndpointSlice "nsm-system/a": endpoint of pod "r-0": "nonsense" is no IPv4 address`}},
		{sentence: "the same problem twice in a slice is reported once", port: byRegistry,
			slices:   sliceSet{slice("a", bare("x"), bare("x"))},
			problems: []string{`EndpointSlice "nsm-system/a": endpoint: "x" is no IPv4 address`}},

		// The same member in several places.
		{sentence: "the same endpoint in two slices is one member", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, ready)), slice("b", pod("r-0/u0", v4, ready))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "the same endpoint twice in one slice is one member", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, ready), pod("r-0/u0", v4, ready))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "an endpoint that moves and becomes ready is ready, though the old slice still says no", port: byRegistry,
			slices: sliceSet{slice("old", version("10"), pod("r-0/u0", v4, notReady)), slice("new", version("11"), pod("r-0/u0", v4, ready))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "a pod that terminates does not come back because the old slice still says ready", port: byRegistry,
			slices: sliceSet{slice("old", version("10"), pod("r-0/u0", v4, ready)), slice("new", version("11"), pod("r-0/u0", v4, terminating))},
			want:   []string{"r-0/u0 terminating 10.0.0.1:5002"}},
		{sentence: "a bare address with two readiness values is ready", port: byRegistry,
			slices: sliceSet{slice("a", bare(v4, notReady)), slice("b", bare(v4, ready))},
			want:   []string{"10.0.0.1:5002 ready 10.0.0.1:5002"}},
		{sentence: "node and zone are copied", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, on("node-1", "zone-a")))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002 node-1 zone-a"}},
		{sentence: "node and zone come from whichever slice knows them", port: byRegistry,
			slices: sliceSet{slice("six", ipv6(), pod("r-0/u0", v6, on("", "zone-a"))), slice("four", pod("r-0/u0", v4, on("node-1", "")))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002 [fd00::1]:5002 node-1 zone-a"}},
		{sentence: "hints do not say where a member is", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/u0", v4, func(e *discoveryv1.Endpoint) {
				e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "zone-b"}}}
			}))},
			want: []string{"r-0/u0 ready 10.0.0.1:5002"}},

		// Replacement and reuse.
		{sentence: "a replaced StatefulSet pod is one member: the ready one", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/old", v4, terminating)), slice("b", pod("r-0/new", other, ready))},
			want:   []string{"r-0/new ready 10.0.0.2:5002"}},
		{sentence: "a replaced StatefulSet pod that is not ready yet is preferred to the one that terminates", port: byRegistry,
			slices: sliceSet{slice("a", version("12"), pod("r-0/old", v4, terminating)), slice("b", version("11"), pod("r-0/new", other, notReady))},
			want:   []string{"r-0/new not ready 10.0.0.2:5002"}},
		{sentence: "of two ready lives of a name the one in the slice written last is taken", port: byRegistry,
			slices: sliceSet{slice("a", version("9"), pod("r-0/b-old", v4, ready)), slice("b", version("10"), pod("r-0/z-new", other, ready))},
			want:   []string{"r-0/z-new ready 10.0.0.2:5002"}},
		{sentence: "of two lives of a name a version that cannot be compared is older", port: byRegistry,
			slices: sliceSet{slice("a", version("opaque"), pod("r-0/a-old", v4)), slice("b", version("1"), pod("r-0/z-new", other))},
			want:   []string{"r-0/z-new ready 10.0.0.2:5002"}},
		{sentence: "of two lives of a name that nothing tells apart always the same is taken", port: byRegistry,
			slices: sliceSet{slice("b", pod("r-0/u2", other)), slice("a", pod("r-0/u1", v4))},
			want:   []string{"r-0/u1 ready 10.0.0.1:5002"}},
		{sentence: "the old life of a name adds no address to the new one", port: byRegistry,
			slices: sliceSet{slice("four", version("11"), pod("r-0/new", other, ready)), slice("six", ipv6(), version("10"), pod("r-0/old", v6, ready))},
			want:   []string{"r-0/new ready 10.0.0.2:5002"}},
		{sentence: "the newest slice counts for a life that is in several", port: byRegistry,
			slices: sliceSet{
				slice("a", version("5"), pod("r-0/new", other)), slice("b", version("10"), pod("r-0/old", v4)),
				slice("c", version("20"), pod("r-0/new", other))},
			want: []string{"r-0/new ready 10.0.0.2:5002"}},
		{sentence: "an IP given to another pod leaves both, each with its own phase", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-a/u1", v4, terminating)), slice("b", pod("r-b/u2", v4, ready))},
			want:   []string{"r-a/u1 terminating 10.0.0.1:5002", "r-b/u2 ready 10.0.0.1:5002"}},
		{sentence: "an IP given to another pod within one slice leaves both", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-z/u1", v4, notReady), pod("r-b/u2", v4, ready))},
			want:   []string{"r-b/u2 ready 10.0.0.1:5002", "r-z/u1 not ready 10.0.0.1:5002"}},
		{sentence: "a bare endpoint at the address of a pod is that pod", port: byRegistry,
			slices: sliceSet{slice("a", bare(v4, ready)), slice("b", pod("r-0/u0", v4, ready))},
			want:   []string{"r-0/u0 ready 10.0.0.1:5002"}},
		{sentence: "a bare endpoint that is ready is not hidden by a pod that left its address", port: byRegistry,
			slices: sliceSet{slice("a", bare(v4, ready)), slice("b", pod("r-0/u0", v4, terminating))},
			want:   []string{"10.0.0.1:5002 ready 10.0.0.1:5002", "r-0/u0 terminating 10.0.0.1:5002"}},
		{sentence: "a bare endpoint at an address with a leaving and a ready pod is the ready pod", port: byRegistry,
			slices: sliceSet{slice("a", bare(v4, ready), pod("r-0/u0", v4, terminating), pod("r-1/u1", v4, ready))},
			want:   []string{"r-0/u0 terminating 10.0.0.1:5002", "r-1/u1 ready 10.0.0.1:5002"}},
		{sentence: "a StatefulSet pod that comes back with a new IP keeps its name", port: byRegistry,
			slices: sliceSet{slice("a", pod("r-0/new", other, ready), pod("r-1/u1", v4, ready))},
			want:   []string{"r-0/new ready 10.0.0.2:5002", "r-1/u1 ready 10.0.0.1:5002"}},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			for range 2 {
				members, problems := merge(tc.slices, tc.port)
				require.Equal(t, append([]string{}, tc.want...), show(members))
				texts := make([]string, 0, len(problems))
				for _, p := range problems {
					texts = append(texts, p.String())
				}
				require.Equal(t, append([]string{}, tc.problems...), texts)
				slices.Reverse(tc.slices) // the order of slices makes no difference
			}
		})
	}
}

// drawnEndpoint is an endpoint and what its slice must be like.
type drawnEndpoint struct {
	family   discoveryv1.AddressType
	port     int32
	endpoint discoveryv1.Endpoint
}

// drawEndpoints draws from few names, UIDs and addresses, so that all kinds of collisions are common.
func drawEndpoints(t *rapid.T) []drawnEndpoint {
	condition := rapid.SampledFrom([]*bool{nil, ptr.To(true), ptr.To(false)})
	endpoint := rapid.Custom(func(t *rapid.T) drawnEndpoint {
		d := drawnEndpoint{
			family: rapid.SampledFrom([]discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}).Draw(t, "family"),
			port:   rapid.Int32Range(5002, 5003).Draw(t, "port"),
		}
		host := rapid.IntRange(0, 4).Draw(t, "host") // 0 makes an invalid address
		addr := fmt.Sprintf("fd00::%d", host)
		if d.family == discoveryv1.AddressTypeIPv4 {
			addr = fmt.Sprintf("10.0.0.%d", host)
		}
		if host == 0 {
			addr = "nonsense"
		}
		d.endpoint = discoveryv1.Endpoint{Addresses: []string{addr}, Conditions: discoveryv1.EndpointConditions{
			Ready: condition.Draw(t, "ready"), Serving: condition.Draw(t, "serving"), Terminating: condition.Draw(t, "terminating"),
		}}
		if name := rapid.SampledFrom([]string{"", "r-0", "r-1", "r-2"}).Draw(t, "name"); name != "" {
			d.endpoint.TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: name}
			d.endpoint.TargetRef.UID = rapid.SampledFrom([]types.UID{"", "u1", "u2"}).Draw(t, "uid")
		}
		on(rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"), rapid.SampledFrom([]string{"", "z1"}).Draw(t, "zone"))(&d.endpoint)
		return d
	})
	return rapid.SliceOfN(endpoint, 0, 12).Draw(t, "endpoints")
}

// drawSplit puts endpoints into slices of their kind, drawn anew at each call.
func drawSplit(t *rapid.T, label string, endpoints []drawnEndpoint) sliceSet {
	var out sliceSet
	index := make(map[string]*discoveryv1.EndpointSlice)
	for i, e := range rapid.Permutation(endpoints).Draw(t, label+" order") {
		name := fmt.Sprintf("%s-%d-%d", e.family, e.port, rapid.IntRange(0, 3).Draw(t, fmt.Sprintf("%s slice of %d", label, i)))
		if index[name] == nil {
			index[name] = slice(name, family(e.family), ports(port("registry", e.port)))
			out = append(out, index[name])
		}
		index[name].Endpoints = append(index[name].Endpoints, e.endpoint)
	}
	return out
}

func TestMergeDependsOnWhatIsSaidAndNotOnWhichSliceSaysIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		endpoints := drawEndpoints(t)
		one, _ := merge(drawSplit(t, "one", endpoints), byRegistry)
		two, _ := merge(drawSplit(t, "two", endpoints), byRegistry)
		require.Equal(t, one, two)
	})
}

func TestMergeDoesNotDependOnTheOrderOfSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := drawSplit(t, "one", drawEndpoints(t))
		for _, s := range from {
			s.ResourceVersion = rapid.SampledFrom([]string{"", "opaque", "9", "10", "11"}).Draw(t, "version of "+s.Name)
		}
		members, problems := merge(from, byRegistry)
		shuffledMembers, shuffledProblems := merge(rapid.Permutation(from).Draw(t, "shuffled"), byRegistry)
		require.Equal(t, members, shuffledMembers)
		require.Equal(t, problems, shuffledProblems)
	})
}

func TestMergeKeepsWhatMembersPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		endpoints := drawEndpoints(t)
		members, _ := merge(drawSplit(t, "one", endpoints), byRegistry)
		readyAt := make(map[string]bool)
		terminatingUID := make(map[string]bool)
		for i, m := range members {
			require.NotEmpty(t, m.Name)
			require.NotEmpty(t, m.UID)
			require.NotEmpty(t, m.Addrs)
			if i > 0 {
				require.Less(t, members[i-1].Name, m.Name, "sorted, and each name once")
			}
			for _, addr := range m.Addrs {
				readyAt[addr] = readyAt[addr] || m.Phase == shard.Ready
			}
		}
		for _, e := range endpoints {
			if ref := e.endpoint.TargetRef; ref != nil && ref.UID != "" && phaseOf(e.endpoint.Conditions) == shard.Terminating &&
				e.endpoint.Addresses[0] != "nonsense" {
				terminatingUID[ref.Name+"/"+string(ref.UID)] = true
			}
		}
		for _, m := range members {
			if terminatingUID[m.Name+"/"+m.UID] {
				require.Equal(t, shard.Terminating, m.Phase, "a life that ends does not come back")
			}
		}
		for _, e := range endpoints {
			bareReady := e.endpoint.TargetRef == nil && phaseOf(e.endpoint.Conditions) == shard.Ready && e.endpoint.Addresses[0] != "nonsense"
			if !bareReady || slices.ContainsFunc(endpoints, func(o drawnEndpoint) bool {
				return o.endpoint.TargetRef == nil && o.port == e.port && o.endpoint.Addresses[0] == e.endpoint.Addresses[0] &&
					phaseOf(o.endpoint.Conditions) == shard.Terminating
			}) {
				continue
			}
			addr := joinAddress(e.endpoint.Addresses[0], uint16(e.port))
			require.True(t, readyAt[addr], "nothing shadows the ready endpoint at %s", addr)
		}
	})
}

func BenchmarkMerge1000(b *testing.B) {
	from := make(sliceSet, 0, 20)
	for i := range 10 {
		four := slice(fmt.Sprintf("four-%d", i), version("10"))
		six := slice(fmt.Sprintf("six-%d", i), ipv6(), version("10"))
		for j := range 100 {
			name := fmt.Sprintf("r-%d/u%d", i*100+j, i*100+j)
			pod(name, fmt.Sprintf("10.0.%d.%d", i, j+1), ready, on("node", "zone"))(four)
			pod(name, fmt.Sprintf("fd00::%d:%d", i, j+1), ready, on("node", "zone"))(six)
		}
		from = append(from, four, six)
	}
	b.ReportAllocs()
	for b.Loop() {
		if members, _ := merge(from, byRegistry); len(members) != 1000 {
			b.Fatal(len(members))
		}
	}
}
