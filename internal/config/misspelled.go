// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// misspelled returns a line for each variable in environ ("NAME=value") that is none of vars but looks like one of
// them. Other variables with the prefix are fine: all NSM commands share it, and they share their environment in more
// than one manifest.
func misspelled(environ []string, vars []variable) []string {
	known := make(map[string]bool, len(vars))
	for _, v := range vars {
		known[v.Name] = true
	}
	var lines []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(strings.ToUpper(name), Prefix+"_") || known[name] {
			continue
		}
		if meant := nearest(strings.ToUpper(name), vars); meant != "" {
			lines = append(lines, fmt.Sprintf("%s is not a variable of registry-lb and is ignored; did you mean %s?",
				strings.Trim(quote(name), `"`), meant))
		}
	}
	slices.Sort(lines)
	return lines
}

// nearest returns the name that was probably meant, or "".
func nearest(name string, vars []variable) string {
	best, bestDistance := "", 0
	for _, v := range vars {
		// One slip for every three letters, two at most: NSM_URL of another command is not NSM_TLS.
		slips := min(2, (len(v.Name)-len(Prefix)-1)/3)
		d := levenshtein.ComputeDistance(name, v.Name)
		if d <= slips && (best == "" || d < bestDistance) {
			best, bestDistance = v.Name, d
		}
	}
	return best
}
