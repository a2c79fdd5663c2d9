// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/networkservicemesh/registry-lb/internal/config"
)

// defaultTarget is where registry-lb serves the admin API unless it is told otherwise.
const defaultTarget = "http://127.0.0.1:9090"

// Target is where the admin API is served.
type Target struct {
	// url is what requests are made for.
	url *url.URL
	// socket is the path of a Unix socket; empty: the host of url is connected to.
	socket string
}

// String returns the target as it is shown to people.
func (t Target) String() string {
	if t.socket != "" {
		return "unix://" + t.socket
	}
	return t.url.String()
}

// ParseTarget reads http://host:port, with or without the scheme and with a path before the API's own if need be,
// https likewise, or unix:///path.
func ParseTarget(text string) (Target, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		var urlErr *url.Error
		if errors.As(err, &urlErr) {
			err = urlErr.Err
		}
		return Target{}, fmt.Errorf("not a URL: %w", err)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Target{}, errors.New("only a scheme, an address and a path are expected")
	}
	switch u.Scheme {
	case "http", "https":
		if u.Hostname() == "" {
			return Target{}, errors.New("the host is missing")
		}
		return Target{url: u}, nil
	case "unix":
		if u.Host != "" || u.Path == "" {
			return Target{}, errors.New("the path of a socket needs three slashes, as in unix:///path")
		}
		// The host is not used but for the header of that name.
		return Target{url: &url.URL{Scheme: "http", Host: "localhost"}, socket: u.Path}, nil
	default:
		return Target{}, fmt.Errorf("the scheme is http, https or unix, not %q", u.Scheme)
	}
}

// TargetOf returns where a registry-lb on this machine serves the admin API that listens as listenOn says, a value of
// NSM_ADMIN_LISTEN_ON. An empty one stands for the default.
func TargetOf(listenOn string) (Target, error) {
	if listenOn == "" {
		return ParseTarget(defaultTarget)
	}
	var addr config.ListenAddr
	if err := addr.UnmarshalText([]byte(listenOn)); err != nil {
		return Target{}, err
	}
	if addr.Network == "unix" {
		return ParseTarget(addr.String())
	}
	host, port, err := net.SplitHostPort(addr.Address)
	if err != nil {
		return Target{}, err
	}
	if port == "0" {
		return Target{}, errors.New("it stands for any free port, so the address has to be named")
	}
	if host == "" {
		host = "0.0.0.0"
	}
	// Who listens on all addresses is reached at the loopback one.
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	return ParseTarget("http://" + net.JoinHostPort(host, port))
}
