// SPDX-License-Identifier: Apache-2.0

package config

import "strings"

// Masks select policy files; none means that nothing is checked.
type Masks []string

// UnmarshalText reads masks separated by commas.
func (m *Masks) UnmarshalText(text []byte) error {
	*m = nil
	for mask := range strings.SplitSeq(string(text), ",") {
		if mask = strings.TrimSpace(mask); mask != "" {
			*m = append(*m, mask)
		}
	}
	return nil
}
