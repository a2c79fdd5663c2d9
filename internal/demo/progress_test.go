// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgress(t *testing.T) {
	rows := []struct {
		because  string
		terminal bool
		want     string
	}{
		{"a file gets what was done", false, "  done 2 of 2\n"},
		{"a terminal gets a line that changes", true, "\r  doing 1 of 2\r  done 2 of 2 \n\r  more\r      \r"},
	}
	for _, row := range rows {
		t.Run(row.because, func(t *testing.T) {
			var out bytes.Buffer
			p := newProgress(&out, row.terminal)
			p.doing("doing %d of %d", 1, 2)
			p.doing("doing %d of %d", 1, 2)
			p.done("done %d of %d", 2, 2)
			p.doing("more")
			p.clear()
			p.clear()
			require.Equal(t, row.want, out.String())
		})
	}
}
