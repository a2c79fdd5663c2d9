// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

const (
	networkTCP  = "tcp"
	networkUnix = "unix"

	// maxUnixPath is the longest path that fits into sockaddr_un on Linux, its final zero left out.
	maxUnixPath = 107
)

// ListenAddr is an address to listen on, in the terms of package net.
type ListenAddr struct {
	// Network is "tcp" or "unix".
	Network string
	// Address is "host:port" (host may be empty: all addresses) or an absolute path.
	Address string
}

// String returns the address as a URL, as it is written in the environment.
func (a ListenAddr) String() string { return a.Network + "://" + a.Address }

// UnmarshalText reads tcp://host:port or unix:///path.
func (a *ListenAddr) UnmarshalText(text []byte) error {
	if strings.Contains(string(text), ",") {
		return errors.New("one address is expected, not several")
	}
	u, err := url.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		// The error of package url repeats the whole value, which the caller shows anyway.
		var urlErr *url.Error
		if errors.As(err, &urlErr) {
			err = urlErr.Err
		}
		return fmt.Errorf("not a URL: %w", err)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return errors.New("only a scheme and an address are expected")
	}
	switch u.Scheme {
	case networkTCP:
		if u.Path != "" {
			return fmt.Errorf("a tcp address has no path, but %q is there", u.Path)
		}
		if err := checkHostPort(u.Host); err != nil {
			return err
		}
		*a = ListenAddr{Network: networkTCP, Address: u.Host}
	case networkUnix:
		if u.Host != "" {
			return fmt.Errorf("%q stands where no host is expected; a path needs three slashes, as in unix:///path", u.Host)
		}
		p := path.Clean(u.Path)
		if u.Path == "" || p == "/" || strings.HasSuffix(u.Path, "/") {
			return errors.New("the path of the socket is missing")
		}
		if len(p) > maxUnixPath {
			return fmt.Errorf("the path of a socket has at most %d bytes, not %d", maxUnixPath, len(p))
		}
		*a = ListenAddr{Network: networkUnix, Address: p}
	case "":
		return errors.New("the scheme is missing, tcp:// or unix://")
	default:
		return fmt.Errorf("the scheme is tcp:// or unix://, not %q", u.Scheme)
	}
	return nil
}

// Listen opens the address. A socket that a dead process left behind is replaced, one that somebody serves is not; the
// directory of a socket is made if it is missing.
func (a ListenAddr) Listen(ctx context.Context) (net.Listener, error) {
	if a.Network == networkUnix {
		if err := clearPath(ctx, a.Address); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", a, err)
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, a.Network, a.Address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", a, err)
	}
	if a.Network == networkUnix {
		// As the SDK does for its own sockets: the clients run as other users in other pods, and who they are is shown
		// by their certificates.
		if err := os.Chmod(a.Address, 0o777); err != nil { //nolint:gosec // see above
			_ = l.Close()
			return nil, fmt.Errorf("listen on %s: %w", a, err)
		}
	}
	return l, nil
}

// clearPath makes room for a socket.
func clearPath(ctx context.Context, socket string) error {
	if err := os.MkdirAll(path.Dir(socket), 0o755); err != nil { //nolint:gosec // clients of other users must get in
		return err
	}
	info, err := os.Lstat(socket)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return errors.New("something that is no socket is there")
	}
	conn, err := new(net.Dialer).DialContext(ctx, networkUnix, socket)
	if err == nil {
		_ = conn.Close()
		return errors.New("another process serves it")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(socket)
}

// ListenAddrs are addresses to listen on; at least one, none of them twice.
type ListenAddrs []ListenAddr

// String returns the addresses as they are written in the environment.
func (l ListenAddrs) String() string {
	texts := make([]string, len(l))
	for i, a := range l {
		texts[i] = a.String()
	}
	return strings.Join(texts, ",")
}

// UnmarshalText reads addresses separated by commas.
func (l *ListenAddrs) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), ",")
	addrs := make(ListenAddrs, 0, len(parts))
	seen := make(map[ListenAddr]bool, len(parts))
	for i, part := range parts {
		var a ListenAddr
		if err := a.UnmarshalText([]byte(part)); err != nil {
			if len(parts) > 1 {
				return fmt.Errorf("address %d: %w", i+1, err)
			}
			return err
		}
		if seen[a] {
			return fmt.Errorf("%s is there twice", a)
		}
		seen[a] = true
		addrs = append(addrs, a)
	}
	*l = addrs
	return nil
}

// HostPort is "host:port"; host may be empty: all addresses.
type HostPort string

// String returns the address.
func (h HostPort) String() string { return string(h) }

// UnmarshalText reads host:port.
func (h *HostPort) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if err := checkHostPort(s); err != nil {
		return err
	}
	*h = HostPort(s)
	return nil
}

// checkHostPort says what is wrong with s as an address to listen on. Names of ports are refused: which number they
// mean depends on a file that a small image does not have.
func checkHostPort(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		var addrErr *net.AddrError
		if errors.As(err, &addrErr) {
			return errors.New(addrErr.Err)
		}
		return err
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("the port is a number up to 65535, not %q", port)
	}
	return nil
}
