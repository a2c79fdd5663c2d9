// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Scheme is the kind of a source: the part of its URL before "://".
type Scheme string

const (
	// Kubernetes follows the EndpointSlices of a Service.
	Kubernetes Scheme = "k8s"
	// Static is a list that never changes.
	Static Scheme = "static"
	// File follows a file with one address a line.
	File Scheme = "file"
)

const knownSchemes = "k8s://[namespace]/service[:port], static://host:port,host:port and file:///path"

// Spec says where members come from. Make it with [ParseSpec], which checks it.
type Spec struct {
	// Scheme says which of the other fields count.
	Scheme Scheme
	// Namespace and Service name the Service of [Kubernetes]; an empty Namespace is registry-lb's own.
	Namespace, Service string
	// Port is the port of the Service's endpoints, for [Kubernetes].
	Port Port
	// Addrs are the members of [Static], as host:port, in the order given.
	Addrs []string
	// Path is the absolute path of [File].
	Path string
}

// Port selects one port among those of an EndpointSlice. The zero value selects the only one.
type Port struct {
	// Name is the name that the port has in the Service; empty if the port is selected by number.
	Name string
	// Number is the port that the pods listen on. EndpointSlices do not show the Service's own port number, so it
	// cannot be selected by. Zero if the port is selected by name.
	Number int32
}

// String returns the port as it is written in a spec; empty for the only port.
func (p Port) String() string {
	if p.Number != 0 {
		return strconv.Itoa(int(p.Number))
	}
	return p.Name
}

// String returns the spec in the form that [ParseSpec] reads.
func (s Spec) String() string {
	switch s.Scheme {
	case Static:
		return "static://" + strings.Join(s.Addrs, ",")
	case File:
		return "file://" + s.Path
	case Kubernetes:
		port := s.Port.String()
		if port != "" {
			port = ":" + port
		}
		return "k8s://" + s.Namespace + "/" + s.Service + port
	default:
		return ""
	}
}

// ParseSpec reads `k8s://[namespace]/service[:port name or number]`, `static://host:port,host:port` or `file:///path`.
// Nothing is decoded: a percent sign in a path stands for itself. The error is one line that names the bad part.
func ParseSpec(text string) (Spec, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Spec{}, fmt.Errorf("empty, want one of %s", knownSchemes)
	}
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return Spec{}, fmt.Errorf("%s has no scheme, want one of %s", quote(text), knownSchemes)
	}
	var spec Spec
	var err error
	switch Scheme(scheme) {
	case Kubernetes:
		spec, err = parseKubernetes(rest)
	case Static:
		spec, err = parseStatic(rest)
	case File:
		spec, err = parseFile(rest)
	default:
		return Spec{}, fmt.Errorf("unknown scheme %s, known are %s", quote(scheme), knownSchemes)
	}
	if err != nil {
		return Spec{}, fmt.Errorf("%s: %w", quote(text), err)
	}
	return spec, nil
}

func parseKubernetes(rest string) (Spec, error) {
	const example = "k8s://nsm-system/registry-k8s:registry"
	namespace, service, found := strings.Cut(rest, "/")
	if !found {
		if rest == "" {
			return Spec{}, fmt.Errorf("no Service name, for example %s", example)
		}
		return Spec{}, fmt.Errorf("no slash before the Service name: write k8s:///%s for registry-lb's own namespace, "+
			"or name it as in %s", oneLine(rest), example)
	}
	if namespace != "" {
		if faults := validation.IsDNS1123Label(namespace); len(faults) > 0 {
			return Spec{}, fmt.Errorf("namespace %s is no DNS label (a-z, 0-9 and -), for example %s", quote(namespace), example)
		}
	}
	service, port, hasPort := strings.Cut(service, ":")
	if service == "" {
		return Spec{}, fmt.Errorf("no Service name after the slash, for example %s", example)
	}
	if faults := validation.IsDNS1123Label(service); len(faults) > 0 {
		return Spec{}, fmt.Errorf("service name %s is no DNS label (a-z, 0-9 and -), for example %s", quote(service), example)
	}
	spec := Spec{Scheme: Kubernetes, Namespace: namespace, Service: service}
	if !hasPort {
		return spec, nil
	}
	var err error
	if spec.Port, err = parseServicePort(port); err != nil {
		return Spec{}, fmt.Errorf("%w, for example %s", err, example)
	}
	return spec, nil
}

func parseServicePort(text string) (Port, error) {
	if text == "" {
		return Port{}, errors.New("no port after the colon")
	}
	if isDigits(text) {
		number, err := parsePort(text)
		return Port{Number: int32(number)}, err
	}
	if faults := validation.IsDNS1123Label(text); len(faults) > 0 {
		return Port{}, fmt.Errorf("port %s is neither a number nor a port name (a-z, 0-9 and -)", quote(text))
	}
	return Port{Name: text}, nil
}

// parseStatic takes an address that is given twice for a mistake: the list is written by hand, and one that counts
// fewer members than it seems to is worth a second look. It stops a start, when somebody is looking.
func parseStatic(rest string) (Spec, error) {
	const example = "static://10.0.0.1:5002,[fd00::1]:5002"
	if rest == "" {
		return Spec{}, fmt.Errorf("no address, for example %s", example)
	}
	texts := strings.Split(rest, ",")
	addrs := make([]string, 0, len(texts))
	seen := make(map[string]bool, len(texts))
	for i, text := range texts {
		text = strings.TrimSpace(text)
		if text == "" {
			return Spec{}, fmt.Errorf("address %d of %d is empty, for example %s", i+1, len(texts), example)
		}
		addr, err := parseAddress(text)
		if err != nil {
			return Spec{}, fmt.Errorf("address %d of %d: %w, for example %s", i+1, len(texts), err, example)
		}
		if seen[addr] {
			return Spec{}, fmt.Errorf("address %d of %d: %s is in the list twice", i+1, len(texts), addr)
		}
		seen[addr] = true
		addrs = append(addrs, addr)
	}
	return Spec{Scheme: Static, Addrs: addrs}, nil
}

func parseFile(rest string) (Spec, error) {
	const example = "file:///etc/registry-lb/members"
	switch {
	case rest == "":
		return Spec{}, fmt.Errorf("no path, for example %s", example)
	case strings.ContainsFunc(rest, isControl):
		return Spec{}, fmt.Errorf("path contains a control character, for example %s", example)
	case !strings.HasPrefix(rest, "/"):
		return Spec{}, fmt.Errorf("path %s is relative, write it from the root with three slashes, for example %s",
			quote(rest), example)
	case strings.HasSuffix(rest, "/"):
		return Spec{}, fmt.Errorf("path %s is a directory, want a file, for example %s", quote(rest), example)
	}
	path := filepath.Clean(rest)
	if path == "/" || strings.HasSuffix(rest, "/.") || strings.HasSuffix(rest, "/..") {
		return Spec{}, fmt.Errorf("path %s is a directory, want a file, for example %s", quote(rest), example)
	}
	return Spec{Scheme: File, Path: path}, nil
}
