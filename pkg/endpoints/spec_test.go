// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"
)

func TestParseSpecReads(t *testing.T) {
	for _, tc := range []struct {
		sentence string
		text     string
		want     Spec
	}{
		{"the default: own namespace and a port by name", "k8s:///registry-k8s:registry",
			Spec{Scheme: Kubernetes, Service: "registry-k8s", Port: Port{Name: "registry"}}},
		{"a Service in another namespace", "k8s://nsm-system/registry-k8s:registry",
			Spec{Scheme: Kubernetes, Namespace: "nsm-system", Service: "registry-k8s", Port: Port{Name: "registry"}}},
		{"a Service with a port by number", "k8s://ns/svc:5002",
			Spec{Scheme: Kubernetes, Namespace: "ns", Service: "svc", Port: Port{Number: 5002}}},
		{"a Service without a port", "k8s:///svc", Spec{Scheme: Kubernetes, Service: "svc"}},
		{"a port name that begins with a digit", "k8s:///svc:5g", Spec{Scheme: Kubernetes, Service: "svc", Port: Port{Name: "5g"}}},
		{"space around the whole", " k8s:///svc\n", Spec{Scheme: Kubernetes, Service: "svc"}},
		{"one address", "static://10.0.0.1:5002", Spec{Scheme: Static, Addrs: []string{"10.0.0.1:5002"}}},
		{"addresses of all kinds, in their order", "static://b.example.org:1,10.0.0.1:65535,[FD00::0:1]:5002,localhost:3",
			Spec{Scheme: Static, Addrs: []string{"b.example.org:1", "10.0.0.1:65535", "[fd00::1]:5002", "localhost:3"}}},
		{"space around addresses", "static://a:1, b:2", Spec{Scheme: Static, Addrs: []string{"a:1", "b:2"}}},
		{"host names in lower case", "static://Registry-0.NSM:5002", Spec{Scheme: Static, Addrs: []string{"registry-0.nsm:5002"}}},
		{"an IPv4 address written as IPv6", "static://[::ffff:10.0.0.1]:5002", Spec{Scheme: Static, Addrs: []string{"10.0.0.1:5002"}}},
		{"a port with leading zeros", "static://a:0080", Spec{Scheme: Static, Addrs: []string{"a:80"}}},
		{"a file", "file:///etc/registry-lb/members", Spec{Scheme: File, Path: "/etc/registry-lb/members"}},
		{"a file by a roundabout path", "file:///etc//registry-lb/../members", Spec{Scheme: File, Path: "/etc/members"}},
		{"a file with a percent sign and a space in its name", "file:///a%20b c", Spec{Scheme: File, Path: "/a%20b c"}},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			spec, err := ParseSpec(tc.text)
			require.NoError(t, err)
			require.Equal(t, tc.want, spec)
			again, err := ParseSpec(spec.String())
			require.NoError(t, err)
			require.Equal(t, spec, again)
		})
	}
}

func TestParseSpecRefuses(t *testing.T) {
	for _, tc := range []struct{ sentence, text, want string }{
		{"nothing", "", "empty, want one of k8s://[namespace]/service[:port], static://host:port,host:port and file:///path"},
		{"blanks", " \t", "empty, want one of k8s://"},
		{"an address without a scheme", "10.0.0.1:5002", `"10.0.0.1:5002" has no scheme, want one of k8s://`},
		{"a scheme that nobody knows", "dns:///registry:5002", `unknown scheme "dns", known are k8s://`},
		{"a scheme in capitals", "K8S:///svc", `unknown scheme "K8S", known are k8s://`},
		{"no Service at all", "k8s://", `"k8s://": no Service name, for example k8s://nsm-system/registry-k8s:registry`},
		{"no Service after the namespace", "k8s://ns/", "no Service name after the slash, for example k8s://"},
		{"only a port after the namespace", "k8s://ns/:5002", "no Service name after the slash, for example k8s://"},
		{"two slashes where three are meant", "k8s://svc:5002", "no slash before the Service name: write k8s:///svc:5002 for registry-lb's own namespace"},
		{"a namespace that is no label", "k8s://My_NS/svc", `namespace "My_NS" is no DNS label`},
		{"a Service that is no label", "k8s://ns/svc.other", `service name "svc.other" is no DNS label`},
		{"a path behind the Service", "k8s://ns/svc/x", `service name "svc/x" is no DNS label`},
		{"a query behind the Service", "k8s://ns/svc?x=1", `service name "svc?x=1" is no DNS label`},
		{"a Service name that is too long", "k8s://ns/" + strings.Repeat("a", 64), "is no DNS label"},
		{"a colon without a port", "k8s://ns/svc:", "no port after the colon, for example k8s://"},
		{"port 0", "k8s://ns/svc:0", `port "0" is not a number from 1 to 65535, for example k8s://`},
		{"a port that is too large", "k8s://ns/svc:65536", `port "65536" is not a number from 1 to 65535`},
		{"a port that is far too large", "k8s://ns/svc:99999999999999999999", `is not a number from 1 to 65535`},
		{"a port with a sign", "k8s://ns/svc:+80", `port "+80" is neither a number nor a port name`},
		{"a port name in capitals", "k8s://ns/svc:GRPC", `port "GRPC" is neither a number nor a port name`},
		{"two ports", "k8s://ns/svc:1:2", `port "1:2" is neither a number nor a port name`},
		{"an empty list", "static://", `"static://": no address, for example static://10.0.0.1:5002,[fd00::1]:5002`},
		{"a comma at the end", "static://a:1,", "address 2 of 2 is empty"},
		{"a host without a port", "static://a:1,b", `address 2 of 2: "b" has no port, for example static://`},
		{"a port without a host", "static://:5002", `address 1 of 1: ":5002" has no host`},
		{"a colon without a port in a list", "static://a:", `port "" is not a number from 1 to 65535 in "a:"`},
		{"a port by name in a list", "static://a:http", `port "http" is not a number from 1 to 65535 in "a:http"`},
		{"a negative port", "static://a:-1", `port "-1" is not a number from 1 to 65535`},
		{"IPv6 without brackets", "static://fd00::1:5002", `"fd00::1:5002" has more than one colon, write an IPv6 address in brackets`},
		{"IPv6 in brackets without a port", "static://[fd00::1]", `"[fd00::1]" has no port`},
		{"IPv4 in brackets", "static://[10.0.0.1]:5002", "brackets are for IPv6 addresses, write 10.0.0.1:5002"},
		{"a name in brackets", "static://[a]:5002", `"a" is no IPv6 address`},
		{"brackets that do not close", "static://[fd00::1:5002", `is no host:port`},
		{"an IPv6 address with a zone", "static://[fe80::1%eth0]:5002", `"fe80::1%eth0" has a zone`},
		{"a mistyped IPv4 address", "static://10.0.0.256:5002", `"10.0.0.256" is neither an IP address nor a host name`},
		{"an IPv4 address with leading zeros", "static://010.0.0.1:5002", `"010.0.0.1" is neither an IP address nor a host name`},
		{"a host name with an underscore", "static://a_b:1", `"a_b" is neither an IP address nor a host name`},
		{"a URL in the list", "static://http://a:1", "has more than one colon"},
		{"the address of nobody", "static://0.0.0.0:5002", "0.0.0.0 is not the address of one host"},
		{"a multicast address", "static://[ff02::1]:5002", "ff02::1 is not the address of one host"},
		{"the same address twice", "static://a:1,b:1,a:1", "address 3 of 3: a:1 is in the list twice"},
		{"the same address in two spellings", "static://[fd00::1]:1,[FD00:0::1]:1", "address 2 of 2: [fd00::1]:1 is in the list twice"},
		{"no path", "file://", `"file://": no path, for example file:///etc/registry-lb/members`},
		{"a relative path", "file://members", `path "members" is relative, write it from the root with three slashes`},
		{"a path from here", "file://./members", `path "./members" is relative`},
		{"the root", "file:///", `path "/" is a directory`},
		{"a directory", "file:///etc/", `path "/etc/" is a directory`},
		{"a directory written with dots", "file:///etc/..", `path "/etc/.." is a directory`},
		{"a path with a control character", "file:///a\x00b", "path contains a control character"},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			_, err := ParseSpec(tc.text)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestAnErrorDoesNotRepeatAllOfALongInput(t *testing.T) {
	_, err := ParseSpec("static://" + strings.Repeat("x", 10_000))
	require.Less(t, len(err.Error()), 500)
}

func FuzzParseSpec(f *testing.F) {
	for _, seed := range []string{
		"k8s:///registry-k8s:registry", "k8s://ns/svc:5002", "static://a:1,[::1]:2", "file:///a/../b", "file:////", "static://[fe80::1%\n]:1", "k8s://a/b:", "://",
	} {
		f.Add(seed)
	}
	client := fake.NewClientset()
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ParseSpec(text)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			require.NotContains(t, err.Error(), "\x00")
			require.Zero(t, spec)
			return
		}
		again, err := ParseSpec(spec.String())
		require.NoError(t, err)
		require.Equal(t, spec, again)
		_, err = New(spec, Options{Client: client, Namespace: "own"})
		require.NoError(t, err, "what parses can be built")
	})
}
