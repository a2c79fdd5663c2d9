// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// table returns rows with their columns aligned. What is empty is a dash.
func table(rows [][]string) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = escape(cell)
			if cell == "" {
				cells[i] = "-"
			}
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush()
	return text.String()
}

// ago returns how long ago t was. Clocks may differ a little.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, now.Sub(t))) + " ago"
}

// due returns how long it takes until t, or how long ago it was.
func due(t, now time.Time) string {
	if t.After(now) {
		return "in " + duration.HumanDuration(t.Sub(now))
	}
	return ago(t, now)
}
