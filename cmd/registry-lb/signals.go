// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"syscall"
	"time"
)

// signalExit is what shells add to the number of the signal that ended a process.
const signalExit = 128

// sameRequest is how long after a signal others count as the same request: timeout(1) and supervisors signal a process
// and then its whole group, so that it gets each signal twice.
const sameRequest = 500 * time.Millisecond

// untilSignal returns a context that ends with the first signal: that is the time to drain. A second one, half a second
// later or more, calls exit at once, for who does not want to wait. stop releases what this needs, and waits until it is
// released.
func untilSignal(parent context.Context, signals <-chan os.Signal, exit func(code int)) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var asked time.Time
		for {
			select {
			case s := <-signals:
				switch {
				case asked.IsZero():
					asked = time.Now()
					cancel()
				case time.Since(asked) >= sameRequest:
					code := signalExit
					if number, ok := s.(syscall.Signal); ok {
						code += int(number)
					}
					exit(code)
					return
				}
			case <-quit:
				return
			}
		}
	}()
	return ctx, func() {
		cancel()
		close(quit)
		<-done
	}
}
