// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// stallLimit is how long a client may leave one response unread before the call is ended.
const stallLimit = 30 * time.Second

// errStalled ends the call of a client that does not read.
var errStalled = status.Errorf(codes.ResourceExhausted,
	"registry-lb: the client has read nothing for %v: read faster or ask for less", stallLimit)

// send has a client be sent something, and ends that when the client does not read for too long, or when d is over.
//
// A client that does not read blocks who sends until its stream ends, which is when the handler returns; so the sending
// goroutine must not be the handler's own. do says of each response that it has been sent.
func (p *Proxy) send(client context.Context, d *drain, do func(sent func()) error) error {
	var progress atomic.Uint64
	over := make(chan error, 1)
	go func() { over <- do(func() { progress.Add(1) }) }()

	ticker := p.options.Clock.NewTicker(stallLimit)
	defer ticker.Stop()
	for before := uint64(0); ; {
		select {
		case err := <-over:
			return err
		case <-client.Done():
			return status.FromContextError(client.Err()).Err()
		case <-d.begins:
			d.begin()
		case <-d.over:
			return errStopping()
		case <-p.closed:
			return errStopping()
		case <-ticker.C():
			now := progress.Load()
			if now == before {
				return errStalled
			}
			before = now
		}
	}
}
