// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// report writes what was measured. It keeps the first error of the writer and writes nothing after it.
type report struct {
	out  io.Writer
	nses int
	// bold says that headings are.
	bold bool
	err  error
}

func newReport(out io.Writer, nses int, bold bool) *report {
	return &report{out: out, nses: nses, bold: bold}
}

func (r *report) printf(format string, args ...any) {
	if r.err == nil {
		_, r.err = fmt.Fprintf(r.out, format, args...)
	}
}

func (r *report) heading(format string, args ...any) {
	if r.bold {
		format = "\x1b[1m" + format + "\x1b[0m"
	}
	r.printf(format+"\n", args...)
}

// row is a line of a table: a text and figures.
type row struct {
	text    string
	figures []any
}

// table writes texts on the left and, below the titles in the first row, figures on the right.
func (r *report) table(rows ...row) {
	// A tabwriter aligns all columns alike, so the texts are padded here.
	width := 0
	for _, row := range rows {
		width = max(width, utf8.RuneCountInString(row.text))
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		_, _ = fmt.Fprintf(w, "%-*s\t", width, row.text)
		for _, figure := range row.figures {
			_, _ = fmt.Fprintf(w, "%v\t", figure)
		}
		_, _ = fmt.Fprintln(w)
	}
	_ = w.Flush()
	r.printf("\n%s\n", table.String())
}

// opening says what is about to be seen.
func (r *report) opening() {
	r.printf("registry-lb demo: real registries and real clients of NSM in one process, on loopback\n\n")
	r.heading("%d NSEs and %d registries. Clients make each call on a connection of its own, as in NSM.", r.nses, replicas)
}

// lives compares life behind a plain Service and behind registry-lb.
func (r *report) lives(m *results) {
	r.table(
		row{fmt.Sprintf("of %d NSEs", r.nses), []any{"plain Service", "registry-lb"}},
		row{"not found by name", []any{m.plain.notFound, m.balanced.notFound}},
		row{"in two registries after a refresh", []any{m.plain.copied, m.balanced.copied}},
		row{"left behind after Unregister", []any{m.plain.leftBehind, m.balanced.leftBehind}},
	)
}

// scaling says what comes next.
func (r *report) scaling() {
	r.heading("A registry joins and another one leaves, while %d NSEs live and are refreshed every %s.", r.nses, seconds(2*shortLifetime/3))
}

// location shows what a command that asks for a location says.
func (r *report) location(command, answer string) {
	r.printf("\n  $ %s\n", command)
	for line := range strings.Lines(answer) {
		r.printf("  %s", line)
	}
	r.printf("\n")
}

// steps shows what moved.
func (r *report) steps(m *results) {
	change := func(verb string, s *step) row {
		return row{s.member + " " + verb, []any{s.stayed, s.toNewcomer, s.memberLeft, s.needless, s.lost}}
	}
	r.table(
		row{fmt.Sprintf("of %d NSEs", r.nses), []any{"stayed", "moved to newcomer", "moved, theirs left", "moved needlessly", "lost"}},
		change("joined", &m.joined),
		change("left", &m.left),
	)
}

// seen sums up results that keep all promises.
func (r *report) seen(m *results) {
	r.printf("Behind a plain Service %d of %d NSEs were not found and %d were left behind; behind registry-lb none.\n",
		m.plain.notFound, r.nses, m.plain.leftBehind)
	r.printf("Of %d living NSEs %d moved when a registry joined and %d when one left, none needlessly; none was lost.\n",
		r.nses, m.joined.toNewcomer, m.left.memberLeft)
	r.printf("Next: \"registry-lb --help\" shows how to put it in front of your own registries, and how to ask it.\n")
}

// seconds is a duration as it is shown.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
