// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
)

var update = flag.Bool("update", false, "write the table of values into the chart's README")

const (
	valuesBegin = "<!-- values:begin -->\n"
	valuesEnd   = "<!-- values:end -->\n"
)

func TestREADMENamesEachValueWithItsDefault(t *testing.T) {
	chart, err := loader.Load(chartDir)
	require.NoError(t, err)
	rows := leaves(t, "", chart.Values)
	sort.Strings(rows)
	table := "| value | default |\n|---|---|\n" + strings.Join(rows, "")

	readme := chartDir + "/README.md"
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), valuesBegin)
	require.True(t, found)
	have, after, found := strings.Cut(rest, valuesEnd)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(readme, []byte(before+valuesBegin+table+valuesEnd+after), 0o600))
		return
	}
	require.Equal(t, table, have, "write it anew with: go test -run README -update")
}

// leaves returns a row of the table for each value that has no values below it.
func leaves(t *testing.T, path string, value any) []string {
	t.Helper()
	if below, ok := value.(map[string]any); ok && len(below) > 0 {
		rows := make([]string, 0, len(below))
		for key, v := range below {
			rows = append(rows, leaves(t, strings.TrimPrefix(path+"."+key, "."), v)...)
		}
		return rows
	}
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return []string{fmt.Sprintf("| `%s` | `%s` |\n", path, text)}
}
