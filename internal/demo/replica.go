// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/chains/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// replica is one registry, as the command registry-memory serves it.
type replica struct {
	addr   string
	server *grpc.Server
	served chan struct{}
	cancel context.CancelFunc
	// inside is a connection past registry-lb, to see what the registry has.
	inside *grpc.ClientConn
}

// startReplica serves a registry that forgets NSEs which are not refreshed for lifetime.
func startReplica(ctx context.Context, name string, lifetime time.Duration) (*replica, error) {
	tokens, err := newTokens(name)
	if err != nil {
		return nil, err
	}
	listener, err := listen(ctx)
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", name, err)
	}
	addr := listener.Addr().String()
	inside, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("look into %s: %w", name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &replica{addr: addr, server: grpc.NewServer(), served: make(chan struct{}), cancel: cancel, inside: inside}
	memory.NewServer(ctx, tokens, memory.WithDefaultExpiration(lifetime)).Register(r.server)
	go func() {
		defer close(r.served)
		// It ends when it is stopped. A listener that fails shows in calls that fail.
		_ = r.server.Serve(listener)
	}()
	return r, nil
}

// stop ends the registry as the end of its process does. It may be called again.
func (r *replica) stop() {
	r.cancel()
	_ = r.inside.Close()
	r.server.Stop()
	<-r.served
}

// list returns the names of all NSEs that the registry has.
func (r *replica) list(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	nses, err := find(ctx, registry.NewNetworkServiceEndpointRegistryClient(r.inside), &registry.NetworkServiceEndpoint{})
	if err != nil {
		return nil, fmt.Errorf("look into registry %s: %w", r.addr, err)
	}
	names := make([]string, 0, len(nses))
	for _, nse := range nses {
		names = append(names, nse.GetName())
	}
	return names, nil
}

// fleet is the registries there are.
type fleet []*replica

func startFleet(ctx context.Context, lifetime time.Duration) (fleet, error) {
	var f fleet
	for range replicas {
		var err error
		if f, err = f.add(ctx, lifetime); err != nil {
			f.stop()
			return nil, err
		}
	}
	return f, nil
}

// add returns f with one more registry.
func (f fleet) add(ctx context.Context, lifetime time.Duration) (fleet, error) {
	r, err := startReplica(ctx, fmt.Sprintf("registry-%d", len(f)), lifetime)
	if err != nil {
		return f, err
	}
	return append(f, r), nil
}

// without returns f without the registry at addr, and what stops that.
func (f fleet) without(addr string) (rest fleet, stop func()) {
	stop = func() {}
	for _, r := range f {
		if r.addr == addr {
			stop = r.stop
		} else {
			rest = append(rest, r)
		}
	}
	return rest, stop
}

func (f fleet) stop() {
	for _, r := range f {
		r.stop()
	}
}

func (f fleet) addrs() []string {
	addrs := make([]string, 0, len(f))
	for _, r := range f {
		addrs = append(addrs, r.addr)
	}
	return addrs
}

// copies returns for each name how many of the registries have it; those that none has are left out.
func (f fleet) copies(ctx context.Context) (map[string]int, error) {
	copies := make(map[string]int)
	for _, r := range f {
		names, err := r.list(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			copies[name]++
		}
	}
	return copies, nil
}
