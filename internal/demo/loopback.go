// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net"
	"net/url"
)

const (
	tcp = "tcp"
	// anyPort is the address of a free port that only this machine reaches.
	anyPort = "127.0.0.1:0"
)

// listen listens on a free port of the loopback interface.
func listen(ctx context.Context) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, tcp, anyPort)
}

// freePorts returns n addresses at which nobody listened a moment ago. All are held until the last one is found, so they
// differ.
func freePorts(ctx context.Context, n int) ([]string, error) {
	addrs := make([]string, 0, n)
	for range n {
		listener, err := listen(ctx)
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = listener.Close() }()
		addrs = append(addrs, listener.Addr().String())
	}
	return addrs, nil
}

// clientURL is addr as NSM's clients are told it.
func clientURL(addr string) *url.URL { return &url.URL{Scheme: tcp, Host: addr} }
