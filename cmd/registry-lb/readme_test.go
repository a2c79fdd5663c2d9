// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadmeNamesTestsThatAreThere: a pattern that matches no test any more passes, and proves nothing.
func TestReadmeNamesTestsThatAreThere(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	commands := regexp.MustCompile("`(?:cd (\\S+) && )?go test ([^`]*)`").FindAllStringSubmatch(string(readme), -1)
	require.GreaterOrEqual(t, len(commands), 6, "each guarantee has one")
	for _, command := range commands {
		pattern, kind := flagOf(command[2], "bench"), "Benchmark"
		if pattern == "" {
			pattern, kind = flagOf(command[2], "run"), "Test"
		}
		folder := filepath.Join(root, command[1], regexp.MustCompile(`\./[^ .]*`).FindString(command[2]))
		tests := functions(t, folder, kind)
		require.NotEmpty(t, tests, command[0])
		// In a table of Markdown the bar between two patterns has a backslash.
		for alternative := range strings.SplitSeq(strings.ReplaceAll(pattern, `\|`, "|"), "|") {
			matches := regexp.MustCompile(alternative).MatchString
			found := false
			for _, name := range tests {
				found = found || matches(name)
			}
			require.True(t, found, "%s: no test in %s matches %q", command[0], folder, alternative)
		}
	}
}

// flagOf returns the value of a flag in the arguments of go test; empty if it is not there.
func flagOf(arguments, name string) string {
	match := regexp.MustCompile(`-` + name + ` (?:'([^']*)'|(\S+))`).FindStringSubmatch(arguments)
	if match == nil {
		return ""
	}
	return match[1] + match[2]
}

// functions returns the names of the test functions of a kind below a folder.
func functions(t *testing.T, folder, kind string) []string {
	t.Helper()
	var names []string
	declaration := regexp.MustCompile(`(?m)^func (` + kind + `\w+)\(`)
	require.NoError(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range declaration.FindAllStringSubmatch(string(text), -1) {
			names = append(names, match[1])
		}
		return err
	}))
	return names
}
