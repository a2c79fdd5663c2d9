// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// dialIn returns a dialer whose connections are made in a network namespace.
func dialIn(netns string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		type result struct {
			conn net.Conn
			err  error
		}
		done := make(chan result, 1)
		go func() {
			// The thread is in that namespace from then on, so it is not given back, and ends with the goroutine.
			runtime.LockOSThread()
			conn, err := enterAndDial(ctx, netns, network, address)
			done <- result{conn, err}
		}()
		r := <-done
		return r.conn, r.err
	}
}

func enterAndDial(ctx context.Context, netns, network, address string) (net.Conn, error) {
	file, err := os.Open(netnsPath(netns))
	if err != nil {
		return nil, fmt.Errorf("enter a network namespace: %w", err)
	}
	defer func() { _ = file.Close() }()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter network namespace %s: %w", netns, err)
	}
	// Addresses are numbers here, so nothing is looked up on other threads.
	return new(net.Dialer).DialContext(ctx, network, address)
}

// mountsBelow returns what is mounted in dir, the last one first.
func mountsBelow(dir string) []string {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			found = append(found, fields[1])
		}
	}
	slices.Reverse(found)
	return found
}
