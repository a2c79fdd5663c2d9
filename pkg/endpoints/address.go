// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"
)

// parseAddress reads host:port and returns it in its one canonical form, because the address becomes the member's
// place in the ring: all registry-lb replicas must spell it alike. An IPv6 host stands in brackets.
func parseAddress(text string) (string, error) {
	host, port, err := splitAddress(text)
	if err != nil {
		return "", err
	}
	number, err := parsePort(port)
	if err != nil {
		return "", fmt.Errorf("%w in %s", err, quote(text))
	}
	bracketed := strings.HasPrefix(text, "[")
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil && bracketed:
		return "", fmt.Errorf("%s is no IPv6 address", quote(host))
	case err != nil:
		host, err = parseHost(host)
	case bracketed && ip.Is4():
		return "", fmt.Errorf("brackets are for IPv6 addresses, write %s:%s", ip, port)
	default:
		host, err = canonicalIP(ip)
	}
	if err != nil {
		return "", err
	}
	return joinAddress(host, number), nil
}

// splitAddress is net.SplitHostPort with errors that say what to write.
func splitAddress(text string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(text)
	var fault *net.AddrError
	switch {
	case err == nil && host == "":
		return "", "", fmt.Errorf("%s has no host", quote(text))
	case err == nil:
		return host, port, nil
	case errors.As(err, &fault) && strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "["):
		return "", "", fmt.Errorf("%s has more than one colon, write an IPv6 address in brackets", quote(text))
	case errors.As(err, &fault) && strings.HasPrefix(fault.Err, "missing port"):
		return "", "", fmt.Errorf("%s has no port", quote(text))
	default:
		return "", "", fmt.Errorf("%s is no host:port", quote(text))
	}
}

func parsePort(text string) (uint16, error) {
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil || number == 0 {
		return 0, fmt.Errorf("port %s is not a number from 1 to 65535", quote(text))
	}
	return uint16(number), nil
}

// parseHost checks a host name. One that ends in a number is a mistyped IPv4 address (RFC 3696, section 2: the top
// level is never all digits).
func parseHost(host string) (string, error) {
	host = strings.ToLower(host)
	name := strings.TrimSuffix(host, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 || isDigits(last) {
		return "", fmt.Errorf("%s is neither an IP address nor a host name", quote(host))
	}
	return host, nil
}

// canonicalIP refuses addresses that nobody can connect to, and those with a zone, which each machine names differently.
func canonicalIP(ip netip.Addr) (string, error) {
	switch ip = ip.Unmap(); {
	case ip.Zone() != "":
		return "", fmt.Errorf("%s has a zone, which has a meaning on one machine only", quote(ip.String()))
	case ip.IsUnspecified() || ip.IsMulticast():
		return "", fmt.Errorf("%s is not the address of one host", ip)
	default:
		return ip.String(), nil
	}
}

func joinAddress(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

func isControl(r rune) bool {
	return unicode.IsControl(r)
}

// maxQuoted bounds what is repeated of bad input, so that a log line stays one line.
const maxQuoted = 100

// quote shows input to people: escaped, so that it stays on one line, and cut.
func quote(text string) string {
	if len(text) > maxQuoted {
		text = text[:maxQuoted] + "..."
	}
	return strconv.Quote(text)
}

// oneLine is quote without the quotes, for input that is shown within an example.
func oneLine(text string) string {
	quoted := quote(text)
	return quoted[1 : len(quoted)-1]
}
