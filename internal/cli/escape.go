// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxLine is how much of a text from elsewhere an error repeats, in characters.
const maxLine = 300

// escape returns text without anything that a terminal would take for more than a character: names come from the
// network. What can't be shown is written as in a Go string.
func escape(text string) string {
	if isHarmless(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		text = text[size:]
	}
	return b.String()
}

func isHarmless(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// oneLine returns text as a part of one line that is not too long.
func oneLine(text string) string {
	text = escape(strings.Join(strings.Fields(text), " "))
	if utf8.RuneCountInString(text) > maxLine {
		return string([]rune(text)[:maxLine]) + "..."
	}
	return text
}

// escapeJSON returns a JSON text that means the same and has nothing in it that a terminal would take for more than a
// character. JSON itself sees to that for ASCII only.
func escapeJSON(text []byte) []byte {
	safe := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			safe = utf8.AppendRune(safe, r)
		case r == '\r':
			// It stands between values, where it means nothing.
		case r <= 0xffff:
			safe = fmt.Appendf(safe, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			safe = fmt.Appendf(safe, `\u%04x\u%04x`, high, low)
		}
	}
	return safe
}
