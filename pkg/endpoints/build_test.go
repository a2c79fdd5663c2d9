// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	testNamespace = "nsm-system"
	testService   = "registry-k8s"
)

var byRegistry = Port{Name: "registry"}

// sliceOption changes a slice under construction.
type sliceOption func(*discoveryv1.EndpointSlice)

// slice is an IPv4 slice of the Service under test with one port, registry 5002, until options say otherwise.
func slice(name string, options ...sliceOption) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: testNamespace,
			Name:      name,
			Labels:    map[string]string{discoveryv1.LabelServiceName: testService},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{port("registry", 5002)},
	}
	for _, option := range options {
		option(s)
	}
	return s
}

func family(t discoveryv1.AddressType) sliceOption {
	return func(s *discoveryv1.EndpointSlice) { s.AddressType = t }
}

func ipv6() sliceOption { return family(discoveryv1.AddressTypeIPv6) }

func version(v string) sliceOption {
	return func(s *discoveryv1.EndpointSlice) { s.ResourceVersion = v }
}

func ports(p ...discoveryv1.EndpointPort) sliceOption {
	return func(s *discoveryv1.EndpointSlice) { s.Ports = p }
}

func port(name string, number int32) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: &name, Port: &number}
}

func udp(p discoveryv1.EndpointPort) discoveryv1.EndpointPort {
	p.Protocol = ptr.To(corev1.ProtocolUDP)
	return p
}

type endpointOption func(*discoveryv1.Endpoint)

// pod adds an endpoint with a pod behind it, written "name/uid", whose conditions are all nil until options say
// otherwise.
func pod(nameUID, addr string, options ...endpointOption) sliceOption {
	name, uid, _ := strings.Cut(nameUID, "/")
	return bare(addr, append([]endpointOption{func(e *discoveryv1.Endpoint) {
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: testNamespace, Name: name, UID: types.UID(uid)}
	}}, options...)...)
}

// bare adds an endpoint without a pod.
func bare(addr string, options ...endpointOption) sliceOption {
	return func(s *discoveryv1.EndpointSlice) {
		e := discoveryv1.Endpoint{Addresses: []string{addr}}
		for _, option := range options {
			option(&e)
		}
		s.Endpoints = append(s.Endpoints, e)
	}
}

// conditions are written as three letters for ready, serving and terminating: t, f, or - for nil.
func conditions(text string) endpointOption {
	read := func(c byte) *bool {
		if c == '-' {
			return nil
		}
		return ptr.To(c == 't')
	}
	return func(e *discoveryv1.Endpoint) {
		e.Conditions = discoveryv1.EndpointConditions{Ready: read(text[0]), Serving: read(text[1]), Terminating: read(text[2])}
	}
}

func ready(e *discoveryv1.Endpoint)       { conditions("ttf")(e) }
func notReady(e *discoveryv1.Endpoint)    { conditions("fff")(e) }
func terminating(e *discoveryv1.Endpoint) { conditions("ftt")(e) }

func addresses(addrs ...string) endpointOption {
	return func(e *discoveryv1.Endpoint) { e.Addresses = addrs }
}

func on(node, zone string) endpointOption {
	return func(e *discoveryv1.Endpoint) {
		if node != "" {
			e.NodeName = &node
		}
		if zone != "" {
			e.Zone = &zone
		}
	}
}

// show writes members one a line: "name/uid phase addresses node zone".
func show(members []shard.Member) []string {
	lines := make([]string, 0, len(members))
	for _, m := range members {
		name := m.Name
		if m.UID != m.Name {
			name += "/" + m.UID
		}
		line := fmt.Sprintf("%s %s %s", name, m.Phase, strings.Join(m.Addrs, " "))
		for _, place := range []string{m.Node, m.Zone} {
			if place != "" {
				line += " " + place
			}
		}
		lines = append(lines, line)
	}
	return lines
}
