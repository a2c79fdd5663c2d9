// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/tls"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"google.golang.org/grpc/credentials"
)

// SVIDs are an own SVID and the bundles of those who are trusted; a [Source] is one.
type SVIDs interface {
	x509svid.Source
	x509bundle.Source
}

// ServerCredentials secure connections from clients: both sides show a certificate, any SPIFFE ID of a trusted domain
// may connect, and what it may do is for the policies to say.
//
// Sessions are not resumed: with a resumed session the peer's chain would not be verified again, so an SVID whose trust
// was withdrawn could still connect.
func ServerCredentials(s SVIDs) credentials.TransportCredentials {
	config := tlsconfig.MTLSServerConfig(s, s, tlsconfig.AuthorizeAny())
	config.MinVersion = tls.VersionTLS12
	config.SessionTicketsDisabled = true
	return credentials.NewTLS(config)
}

// ClientCredentials secure connections to members. Members whose SPIFFE ID none of the patterns matches are not talked
// to: the address may have become that of somebody else's pod. Without patterns any ID of a trusted domain will do.
func ClientCredentials(s SVIDs, members []Pattern) credentials.TransportCredentials {
	authorizer := tlsconfig.AuthorizeAny()
	if len(members) > 0 {
		authorizer = tlsconfig.AdaptMatcher(func(id spiffeid.ID) error {
			for _, p := range members {
				if p.matches(id) {
					return nil
				}
			}
			return fmt.Errorf("%q is not the SPIFFE ID of a member: it matches none of %v", id, members)
		})
	}
	config := tlsconfig.MTLSClientConfig(s, s, authorizer)
	config.MinVersion = tls.VersionTLS12
	return credentials.NewTLS(config)
}

// Pattern is a SPIFFE ID in which each segment of the path may have the wildcards of path.Match, for example
// spiffe://k8s.nsm/ns/nsm-system/pod/registry-k8s-*. A trust domain alone stands for all IDs in it.
type Pattern string

// ParsePattern reads a pattern.
func ParsePattern(text string) (Pattern, error) {
	rest, ok := strings.CutPrefix(text, "spiffe://")
	domain, segments, hasPath := strings.Cut(rest, "/")
	if !ok || domain == "" {
		return "", fmt.Errorf("%q is not a pattern of SPIFFE IDs: it begins with spiffe:// and a trust domain", text)
	}
	if _, err := spiffeid.TrustDomainFromString(domain); err != nil {
		return "", fmt.Errorf("%q is not a pattern of SPIFFE IDs: %w", text, err)
	}
	if hasPath && slices.Contains(strings.Split(segments, "/"), "") {
		return "", fmt.Errorf("%q is not a pattern of SPIFFE IDs: no segment of a path is empty", text)
	}
	if _, err := path.Match(rest, ""); err != nil {
		return "", fmt.Errorf("%q is not a pattern of SPIFFE IDs: %w", text, err)
	}
	return Pattern(text), nil
}

func (p Pattern) matches(id spiffeid.ID) bool {
	domain, segments, hasPath := strings.Cut(strings.TrimPrefix(string(p), "spiffe://"), "/")
	if domain != id.TrustDomain().Name() {
		return false
	}
	if !hasPath {
		return true
	}
	ok, err := path.Match("/"+segments, id.Path())
	return ok && err == nil
}
