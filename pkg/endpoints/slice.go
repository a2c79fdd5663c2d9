// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// claim is what one endpoint of one slice says about a member. Several slices may speak of one member.
type claim struct {
	name string // place in the ring: pod name or address
	uid  string // life: pod UID or address; empty if a pod is named without its UID
	pod  bool   // whether a pod stands behind it

	address address
	phase   shard.Phase
	node    string
	zone    string
	version string // resource version of the slice; empty if it is none that can be compared
}

// address is one place to connect to.
type address struct {
	text string     // host:port
	ip   netip.Addr // invalid for a host name
	host string
	port uint16
}

// compareAddresses puts IPv4 before IPv6: slices do not tell which family the pod prefers, a node of a dual-stack
// cluster always reaches IPv4, and the order must not depend on which slice came first. Names, which need DNS, are
// last.
func compareAddresses(a, b address) int {
	return cmp.Or(
		cmp.Compare(a.family(), b.family()),
		a.ip.Compare(b.ip),
		cmp.Compare(a.host, b.host),
		cmp.Compare(a.port, b.port),
	)
}

func (a address) family() int {
	switch {
	case a.ip.Is4():
		return 4
	case a.ip.Is6():
		return 6
	default:
		return 7
	}
}

// problem is a part of a slice that cannot be used.
type problem struct {
	slice string // namespace/name
	what  string
	port  bool // whether it is about the choice of the port, so that the whole slice is lost
}

func (p problem) String() string { return fmt.Sprintf("EndpointSlice %q: %s", p.slice, p.what) }

// readSlice returns what one slice says. What is not usable in it becomes a problem and harms nothing else.
func readSlice(slice *discoveryv1.EndpointSlice, want Port) ([]claim, []problem) {
	if len(slice.Endpoints) == 0 {
		return nil, nil // a Service without pods has a slice without ports: nothing is wrong with it
	}
	name := slice.Namespace + "/" + slice.Name
	port, err := choosePort(slice.Ports, want)
	if err != nil {
		return nil, []problem{{slice: name, what: err.Error(), port: true}}
	}
	claims := make([]claim, 0, len(slice.Endpoints))
	var problems []problem
	for i := range slice.Endpoints {
		c, err := readEndpoint(&slice.Endpoints[i], slice.AddressType, port)
		if err != nil {
			problems = append(problems, problem{slice: name, what: err.Error()})
			continue
		}
		c.version = comparableVersion(slice.ResourceVersion)
		claims = append(claims, c)
	}
	return claims, problems
}

func readEndpoint(e *discoveryv1.Endpoint, family discoveryv1.AddressType, port uint16) (claim, error) {
	ref := e.TargetRef
	isPod := ref != nil && ref.Kind == "Pod" && ref.Name != ""
	of := ""
	if isPod {
		of = fmt.Sprintf(" of pod %q", ref.Name)
	}
	if len(e.Addresses) == 0 {
		return claim{}, fmt.Errorf("endpoint%s has no address", of)
	}
	// The API gives no meaning to the addresses after the first, and kube-proxy does not look at them.
	addr, err := readAddress(e.Addresses[0], family, port)
	if err != nil {
		return claim{}, fmt.Errorf("endpoint%s: %w", of, err)
	}
	c := claim{
		name:    addr.text,
		uid:     addr.text,
		address: addr,
		phase:   phaseOf(e.Conditions),
		node:    ptr.Deref(e.NodeName, ""),
		zone:    ptr.Deref(e.Zone, ""), // hints say who should use the endpoint, not where it is
	}
	if isPod {
		c.pod, c.name, c.uid = true, ref.Name, string(ref.UID)
	}
	return c, nil
}

func readAddress(text string, family discoveryv1.AddressType, port uint16) (address, error) {
	if family == discoveryv1.AddressTypeFQDN {
		host, err := parseHost(text)
		return address{text: joinAddress(host, port), host: host, port: port}, err
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return address{}, fmt.Errorf("%s is no %s address", quote(text), family)
	}
	host, err := canonicalIP(ip)
	if err != nil {
		return address{}, err
	}
	ip = ip.Unmap()
	if (family == discoveryv1.AddressTypeIPv4) != ip.Is4() || (family == discoveryv1.AddressTypeIPv6) != ip.Is6() {
		return address{}, fmt.Errorf("%s is no %s address", quote(text), family)
	}
	return address{text: joinAddress(host, port), ip: ip, host: host, port: port}, nil
}

// phaseOf reads the conditions: nil ready and nil serving mean true, nil terminating means false
// (discovery.k8s.io/v1, EndpointConditions). With publishNotReadyAddresses the controller says ready whatever the pod
// is like, so serving and terminating, which stay honest, count too.
func phaseOf(c discoveryv1.EndpointConditions) shard.Phase {
	switch {
	case ptr.Deref(c.Terminating, false):
		return shard.Terminating
	case ptr.Deref(c.Ready, true) && ptr.Deref(c.Serving, true):
		return shard.Ready
	default:
		return shard.NotReady
	}
}

// choosePort finds the number of the wanted port. The registry speaks gRPC, so ports that are not TCP are not there.
func choosePort(ports []discoveryv1.EndpointPort, want Port) (uint16, error) {
	var tcp []discoveryv1.EndpointPort
	for _, p := range ports {
		if ptr.Deref(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
			tcp = append(tcp, p)
		}
	}
	switch {
	case want.Number != 0:
		return choosePortByNumber(tcp, want.Number)
	case want.Name != "":
		for _, p := range tcp {
			if ptr.Deref(p.Name, "") == want.Name {
				return portNumber(p)
			}
		}
		return 0, fmt.Errorf("no TCP port is called %q, there is %s", want.Name, listPorts(tcp))
	case len(tcp) == 1:
		return portNumber(tcp[0])
	case len(tcp) == 0:
		return 0, errors.New("there is no TCP port")
	default:
		return 0, fmt.Errorf("which port to use is ambiguous, there is %s: add :name or :number to the Service", listPorts(tcp))
	}
}

// choosePortByNumber also takes a slice that does not limit the ports: one without any (a headless Service may have
// none) or with one that has no number ("all ports").
func choosePortByNumber(tcp []discoveryv1.EndpointPort, want int32) (uint16, error) {
	open := len(tcp) == 0
	for _, p := range tcp {
		switch {
		case p.Port == nil:
			open = true
		case *p.Port == want:
			return uint16(want), nil
		}
	}
	if open {
		return uint16(want), nil
	}
	return 0, fmt.Errorf("no TCP port has the number %d, there is %s", want, listPorts(tcp))
}

func portNumber(p discoveryv1.EndpointPort) (uint16, error) {
	number := ptr.Deref(p.Port, 0)
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("port %q has no number", ptr.Deref(p.Name, ""))
	}
	return uint16(number), nil
}

func listPorts(ports []discoveryv1.EndpointPort) string {
	if len(ports) == 0 {
		return "none"
	}
	texts := make([]string, 0, len(ports))
	for _, p := range ports {
		texts = append(texts, fmt.Sprintf("%q (%d)", ptr.Deref(p.Name, ""), ptr.Deref(p.Port, 0)))
	}
	return strings.Join(texts, ", ")
}

// comparableVersion returns the resource version if it can be compared with others, as all that come from a
// Kubernetes API server can, and else the empty string.
func comparableVersion(version string) string {
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return ""
	}
	return version
}

// compareVersions compares what comparableVersion returns. The empty string is older than all else.
func compareVersions(a, b string) int {
	if order, err := resourceversion.CompareResourceVersion(a, b); err == nil {
		return order
	}
	return cmp.Compare(len(a), len(b)) // at least one is empty
}
