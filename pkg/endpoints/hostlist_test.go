// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseHostList(t *testing.T) {
	for _, tc := range []struct {
		sentence string
		content  string
		want     []string
		err      string
	}{
		{sentence: "nothing is an empty list"},
		{sentence: "comments and blank lines alone are an empty list", content: "# none yet\n\n   \n\t# really\n"},
		{sentence: "a host:port a line", content: "a:1\n10.0.0.1:2\n[fd00::1]:3\n", want: []string{"a:1", "10.0.0.1:2", "[fd00::1]:3"}},
		{sentence: "the last line needs no line end", content: "a:1\nb:2", want: []string{"a:1", "b:2"}},
		{sentence: "line ends of Windows", content: "a:1\r\n\r\nb:2\r\n", want: []string{"a:1", "b:2"}},
		{sentence: "a byte order mark", content: "\ufeffa:1\n", want: []string{"a:1"}},
		{sentence: "a comment behind an address", content: "a:1 # the first\nb:2#second", want: []string{"a:1", "b:2"}},
		{sentence: "space around an address", content: "  a:1\t\n", want: []string{"a:1"}},
		{sentence: "a line twice counts once", content: "a:1\nb:2\nA:1\n", want: []string{"a:1", "b:2"}},
		{sentence: "a bad line is named by its number", content: "a:1\n# x\nb\n", err: `/m:3: "b" has no port`},
		{sentence: "two addresses in a line are a bad line", content: "a:1 b:2\n", err: `/m:1: "a:1 b:2" has more than one colon`},
		{sentence: "a byte order mark in the middle is a bad line", content: "a:1\n\ufeffb:2\n", err: `/m:2: "\ufeffb" is neither`},
		{sentence: "bytes that are no text are shown escaped", content: "\xff\x00:1", err: `is neither an IP address nor a host name`},
		{sentence: "several bad lines are on one line", content: "a\nb\n", err: `/m:1: "a" has no port; /m:2: "b" has no port`},
		{sentence: "many bad lines are counted", content: "a\nb\nc\nd\ne\n", err: `/m:3: "c" has no port; and 2 more`},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			addrs, err := parseHostList("/m", []byte(tc.content))
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.NotContains(t, err.Error(), "\n")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, addrs)
		})
	}
}

func FuzzParseHostList(f *testing.F) {
	f.Add([]byte("a:1\r\n# c\n[::1]:2"))
	f.Add([]byte("\ufeff\xff\x00\n[fe80::1%e]:1\n::1:2"))
	f.Fuzz(func(t *testing.T, content []byte) {
		addrs, err := parseHostList("/m", content)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, len(err.Error()), 2000)
			return
		}
		again, err := parseHostList("/m", []byte(strings.Join(addrs, "\n")))
		require.NoError(t, err)
		require.Equal(t, addrs, again)
	})
}
