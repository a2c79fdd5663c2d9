// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// progress shows what is being done: on a terminal in one line that changes, elsewhere only what has been done. It
// belongs to one goroutine.
type progress struct {
	out  io.Writer
	live bool
	// line is what stands in the line that changes.
	line string
}

func newProgress(out io.Writer, terminal bool) *progress { return &progress{out: out, live: terminal} }

// doing shows what is going on now.
func (p *progress) doing(format string, args ...any) {
	if p.live {
		p.show(fmt.Sprintf("  "+format, args...))
	}
}

// done leaves a line that stays.
func (p *progress) done(format string, args ...any) {
	text := fmt.Sprintf("  "+format, args...)
	if p.live {
		p.show(text)
		text = ""
	}
	_, _ = fmt.Fprintln(p.out, text)
	p.line = ""
}

// clear leaves an empty line to whoever writes next.
func (p *progress) clear() {
	if p.line != "" {
		p.show("")
		_, _ = fmt.Fprint(p.out, "\r")
	}
}

// show replaces the line. Spaces wipe out what was longer, on any terminal.
func (p *progress) show(text string) {
	if text == p.line {
		return
	}
	longer := utf8.RuneCountInString(p.line) - utf8.RuneCountInString(text)
	_, _ = fmt.Fprint(p.out, "\r", text, strings.Repeat(" ", max(0, longer)))
	p.line = text
}
