// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSignals(t *testing.T) {
	rows := []struct {
		because string
		pause   time.Duration
		send    []os.Signal
		ended   bool
		exits   []int
	}{
		{because: "without a signal it goes on"},
		{because: "SIGTERM asks to stop", send: []os.Signal{syscall.SIGTERM}, ended: true},
		{because: "SIGINT asks to stop", send: []os.Signal{syscall.SIGINT}, ended: true},
		{"a second SIGINT does not wait", sameRequest, []os.Signal{syscall.SIGTERM, syscall.SIGINT}, true, []int{130}},
		{"a second SIGTERM does not wait", sameRequest, []os.Signal{syscall.SIGINT, syscall.SIGTERM}, true, []int{143}},
		{"the same request made twice is one", sameRequest - 1, []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, true, nil},
	}
	for _, row := range rows {
		t.Run(row.because, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var exits []int
				signals := make(chan os.Signal, 2)
				ctx, stop := untilSignal(t.Context(), signals, func(code int) { exits = append(exits, code) })
				for _, s := range row.send {
					signals <- s
					synctest.Wait()
					<-time.After(row.pause)
				}
				synctest.Wait()
				require.Equal(t, row.ended, ctx.Err() != nil)
				require.Equal(t, row.exits, exits)
				stop()
				require.Error(t, ctx.Err())
			})
		})
	}
}
