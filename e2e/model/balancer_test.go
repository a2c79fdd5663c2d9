// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/networkservicemesh/sdk/pkg/registry/core/chain"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
)

// balancer is one registry-lb behind a gRPC server, with a client.
type balancer struct {
	name   string
	proxy  *proxy.Proxy
	server *grpc.Server
	conn   *grpc.ClientConn
	client registry.NetworkServiceEndpointRegistryClient

	// view are the members that it was told, by name.
	view map[string]shard.Member
	// late is what it will be told, the earliest first.
	late []lateView

	end     context.CancelFunc
	running sync.WaitGroup
}

// lateView are members that a balancer will be told of some steps after what it was told before.
type lateView struct {
	members []shard.Member
	steps   int
}

// startBalancer starts a registry-lb that knows these members, and waits until it is ready.
func startBalancer(name string, options proxy.Options, members []shard.Member) (*balancer, error) {
	options.DialOptions = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	p, err := proxy.New(options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &balancer{name: name, proxy: p, server: grpc.NewServer(proxy.ServerOptions()...), end: cancel}
	b.running.Go(func() { _ = p.Run(ctx) })
	b.tell(members)

	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		b.stop()
		return nil, err
	}
	p.Register(b.server, health.NewServer())
	b.running.Go(func() { _ = b.server.Serve(l) })
	b.conn, err = grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.stop()
		return nil, err
	}
	// What an NSM client has in front of its connection, as far as calls see it.
	b.client = chain.NewNetworkServiceEndpointRegistryClient(
		grpcmetadata.NewNetworkServiceEndpointRegistryClient(),
		registry.NewNetworkServiceEndpointRegistryClient(b.conn),
	)
	if err := eventually(b.ready); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

// tell tells the balancer which members there are.
func (b *balancer) tell(members []shard.Member) {
	b.view = make(map[string]shard.Member, len(members))
	for _, m := range members {
		b.view[m.Name] = m
	}
	b.proxy.SetMembers(members)
}

// knows says whether the balancer was told of this life of a member.
func (b *balancer) knows(l member.Life) bool { return b.view[l.Name].UID == l.UID }

// stop ends the balancer as a killed process ends.
func (b *balancer) stop() {
	if b.conn != nil {
		_ = b.conn.Close()
	}
	b.server.Stop()
	b.end()
	b.running.Wait()
}

// ready says why the balancer is not ready.
func (b *balancer) ready() error {
	if reasons := b.proxy.NotReady(); len(reasons) > 0 {
		return fmt.Errorf("%s is not ready: %s", b.name, strings.Join(reasons, "; "))
	}
	return nil
}

// locate returns the member to which the balancer sends a call about the NSE that says nothing but its name, and why.
func (b *balancer) locate(name string) (string, shard.Reason) {
	route, _ := b.proxy.Locate(shard.NSEKey(name))
	return route.Member, route.Reason
}

// describe is what the balancer knows, for people.
func (b *balancer) describe() string {
	text := b.name + ":"
	for _, m := range b.proxy.Members() {
		text += fmt.Sprintf(" %s (%s) is %s, %q, holds %d;", m.Name, m.UID, m.State, m.SpiffeID, m.Keys)
	}
	return fmt.Sprintf("%s %+v, not ready: %q", text, b.proxy.Status().DirectoryStatus, b.proxy.NotReady())
}
