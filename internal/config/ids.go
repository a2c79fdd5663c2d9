// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"

	"github.com/networkservicemesh/registry-lb/internal/identity"
)

// IDPatterns are the SPIFFE IDs that replicas may have; none means any.
type IDPatterns []identity.Pattern

// UnmarshalText reads patterns separated by commas.
func (p *IDPatterns) UnmarshalText(text []byte) error {
	var patterns IDPatterns
	for field := range strings.SplitSeq(string(text), ",") {
		field = strings.TrimSpace(field)
		if field == "" {
			continue
		}
		pattern, err := identity.ParsePattern(field)
		if err != nil {
			return err
		}
		patterns = append(patterns, pattern)
	}
	*p = patterns
	return nil
}
