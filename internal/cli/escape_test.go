// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"nse-17@far.example":          "nse-17@far.example",
		"zażółć 网络":                   "zażółć 网络",
		`a\b"c`:                       `a\b"c`,
		"\x1b]0;title\a":              `\x1b]0;title\x07`,
		"a\r\n\tb":                    `a\x0d\x0a\x09b`,
		"\u009b31m \u202eabc\u2066":   `\u009b31m \u202eabc\u2066`,
		"tag\U000e0041":               `tag\U000e0041`,
		"no text\xff\xc3":             `no text\xff\xc3`,
		"a\u00a0b\u2028c\ufeff\u200b": `a\u00a0b\u2028c\ufeff\u200b`,
		"\ufffd":                      "\ufffd",
	} {
		require.Equal(t, want, escape(text), "%q", text)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		require.True(t, isHarmless(escape(text)))
		require.True(t, isHarmless(oneLine(text)))
	})
}

func TestOneLineIsNotLong(t *testing.T) {
	require.Equal(t, "a b c", oneLine(" a\n\tb\r\n c "))
	require.Equal(t, strings.Repeat("ü", maxLine), oneLine(strings.Repeat("ü", maxLine)))
	require.Equal(t, strings.Repeat("ü", maxLine)+"...", oneLine(strings.Repeat("ü", maxLine+1)))
}

func TestEscapeJSONMeansTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.String())).Draw(t, "value")
		text, err := json.MarshalIndent(value, rapid.SampledFrom([]string{"", "\t", "\r", "\n"}).Draw(t, "prefix"), "\t")
		require.NoError(t, err)
		safe := escapeJSON(text)
		require.JSONEq(t, string(text), string(safe))
		require.True(t, isHarmless(strings.NewReplacer("\n", "", "\t", "").Replace(string(safe))), "%q", safe)
	})
}
