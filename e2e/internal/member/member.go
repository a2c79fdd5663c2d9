// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// drainTime is how long a member that stops in good order waits for calls in flight. Watches never end by themselves.
const drainTime = 200 * time.Millisecond

// Options are what a [Member] needs.
type Options struct {
	// Name is that of the pod, UID that of its life.
	Name, UID string
	// Address is the host:port to listen on; empty means a free port of 127.0.0.1.
	Address string
	// SPIFFEID is what the member writes into path_ids; empty means [ID] of its name.
	SPIFFEID string
	// Registry makes the chains.
	Registry Registry
	// Recorder is told which calls come in; nil means nobody is.
	Recorder *Recorder
}

// Member is one life of a registry replica.
type Member struct {
	// Member is how an EndpointSlice describes it.
	shard.Member
	// SPIFFEID is what it writes into path_ids.
	SPIFFEID string

	server *grpc.Server
	// forget ends the chains, and with them timers and watches.
	forget context.CancelFunc
	served sync.WaitGroup
}

// Start starts a member; it listens before Start returns.
func Start(options Options) (*Member, error) {
	if options.SPIFFEID == "" {
		options.SPIFFEID = ID(options.Name)
	}
	if options.Address == "" {
		options.Address = "127.0.0.1:0"
	}
	token, err := Token(options.SPIFFEID)
	if err != nil {
		return nil, fmt.Errorf("make a token for member %s: %w", options.Name, err)
	}
	ctx, cancel := context.WithCancel(silent(context.Background()))
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", options.Address)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("listen for member %s: %w", options.Name, err)
	}
	m := &Member{
		Member:   shard.Member{Name: options.Name, UID: options.UID, Addrs: []string{l.Addr().String()}},
		SPIFFEID: options.SPIFFEID,
		server:   grpc.NewServer(intercept(options.Recorder, Life{Name: options.Name, UID: options.UID})...),
		forget:   cancel,
	}
	options.Registry(ctx, token.Generate).Register(m.server)
	m.served.Go(func() { _ = m.server.Serve(l) }) // ends when the server is stopped
	return m, nil
}

// Life returns which life of which replica the member is.
func (m *Member) Life() Life { return Life{Name: m.Name, UID: m.UID} }

// Crash ends the member as a lost process ends: it listens no more, its connections are closed, its memory is gone.
func (m *Member) Crash() {
	m.forget()
	m.server.Stop()
	m.served.Wait()
}

// Stop ends the member in good order: it takes no new calls and finishes those in flight.
func (m *Member) Stop() {
	drained := make(chan struct{})
	go func() {
		m.server.GracefulStop()
		close(drained)
	}()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C:
	}
	m.Crash()
	<-drained
}
