// SPDX-License-Identifier: Apache-2.0

package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// With -update the tables are written instead of compared; `make docs` does so.
var update = flag.Bool("update", false, "write the tables of variables into the documents")

// The table of variables stands between these lines of a document.
const (
	tableBegin = "<!-- config:begin -->"
	tableEnd   = "<!-- config:end -->"
)

func markdown() string {
	var b strings.Builder
	b.WriteString("| variable | default | meaning |\n|---|---|---|\n")
	for _, v := range variables() {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", v.Name, v.Default, strings.ReplaceAll(v.Meaning, "|", `\|`))
	}
	return b.String()
}

func TestDocumentationTables(t *testing.T) {
	root := filepath.Join("..", "..")
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	must := filepath.Join(root, "docs", "configuration.md")
	require.Contains(t, docs, must)
	for _, doc := range append(docs, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(doc)
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		if doc != must && !strings.Contains(string(text), tableBegin) {
			continue
		}
		t.Run(filepath.Base(doc), func(t *testing.T) {
			require.Equal(t, 1, strings.Count(string(text), tableBegin), tableBegin)
			require.Equal(t, 1, strings.Count(string(text), tableEnd), tableEnd)
			before, rest, _ := strings.Cut(string(text), tableBegin)
			_, after, found := strings.Cut(rest, tableEnd)
			require.True(t, found, "%s comes after %s", tableEnd, tableBegin)
			want := before + tableBegin + "\n" + markdown() + tableEnd + after
			if *update && want != string(text) {
				require.NoError(t, os.WriteFile(doc, []byte(want), 0o644))
				return
			}
			require.Equal(t, want, string(text), "run make docs")
		})
	}
}

func TestUsageShowsEachVariable(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Usage(&b))
	unwrapped := strings.ReplaceAll(strings.Join(strings.Fields(b.String()), " "), ", ", ",")
	for _, v := range variables() {
		require.Regexp(t, `(?m)^  `+v.Name+` `, b.String())
		require.Contains(t, unwrapped, v.Default)
		require.NotEmpty(t, v.Meaning, v.Name)
	}
	for line := range strings.Lines(b.String()) {
		require.LessOrEqual(t, len(line), 140, line)
	}
	words := strings.Join(strings.Fields(b.String()), " ")
	require.Contains(t, words, "How long a call waits for a first replica while there is none, within its own deadline.",
		"a meaning that is wrapped is complete")
}
