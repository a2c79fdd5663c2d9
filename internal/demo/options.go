// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"io"

	"go.uber.org/zap"
)

// Options are what Run needs to know.
type Options struct {
	// Out gets what is shown.
	Out io.Writer
	// Terminal says that a person sees what is written at once: there is a line that shows progress then.
	Terminal bool
	// Bold says that Out understands the escape sequence for bold text.
	Bold bool
	// NSEs is the number of NSEs; 0 means 200.
	NSEs int
	// Log is the log of registry-lb; nil means none.
	Log *zap.Logger

	// bypass lets the clients of registry-lb use a plain Service. For tests: it breaks what registry-lb promises.
	bypass bool
}
