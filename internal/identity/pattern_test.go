// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"testing"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"
)

func TestIdentityPattern(t *testing.T) {
	t.Parallel()
	const id = "spiffe://k8s.nsm/ns/nsm-system/pod/registry-k8s-7f9c"
	for _, row := range []struct {
		name, pattern, id string
		matches           bool
	}{
		{"the ID itself", id, id, true},
		{"a wildcard in a segment", "spiffe://k8s.nsm/ns/nsm-system/pod/registry-k8s-*", id, true},
		{"a wildcard for a segment", "spiffe://k8s.nsm/ns/*/pod/*", id, true},
		{"a wildcard for a character", "spiffe://k8s.nsm/ns/nsm-system/pod/registry-k?s-7f9c", id, true},
		{"a class of characters", "spiffe://k8s.nsm/ns/nsm-system/pod/registry-k[0-9]s-7f9c", id, true},
		{"a trust domain alone", "spiffe://k8s.nsm", id, true},
		{"another trust domain alone", "spiffe://nsm", id, false},
		{"a trust domain that begins alike", "spiffe://k8s.nsm", "spiffe://k8s.nsm.example/ns/a", false},
		{"another trust domain", "spiffe://other.nsm/ns/*/pod/*", id, false},
		{"a wildcard that would have to match a slash", "spiffe://k8s.nsm/*", id, false},
		{"fewer segments", "spiffe://k8s.nsm/ns/*/pod", id, false},
		{"more segments", "spiffe://k8s.nsm/ns/*/pod/*/*", id, false},
		{"another pod", "spiffe://k8s.nsm/ns/nsm-system/pod/registry-memory-*", id, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p, err := ParsePattern(row.pattern)
			require.NoError(t, err)
			require.Equal(t, row.matches, p.matches(spiffeid.RequireFromString(row.id)))
		})
	}
}

func TestIdentityPatternThatIsNone(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, pattern, says string }{
		{"nothing", "", "begins with spiffe:// and a trust domain"},
		{"no scheme", "k8s.nsm/ns/*", "begins with spiffe:// and a trust domain"},
		{"another scheme", "https://k8s.nsm/ns/*", "begins with spiffe:// and a trust domain"},
		{"no trust domain", "spiffe:///ns/*", "begins with spiffe:// and a trust domain"},
		{"a wildcard in the trust domain", "spiffe://*.nsm/ns/*", "trust domain"},
		{"capitals in the trust domain", "spiffe://K8S.nsm/ns/*", "trust domain"},
		{"a port", "spiffe://k8s.nsm:8443/ns/*", "trust domain"},
		{"a class without end", "spiffe://k8s.nsm/ns/[a-", "syntax error in pattern"},
		{"a slash at the end", "spiffe://k8s.nsm/ns/", "no segment of a path is empty"},
		{"two slashes", "spiffe://k8s.nsm//ns", "no segment of a path is empty"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParsePattern(row.pattern)
			require.ErrorContains(t, err, row.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}
