// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/internal/identity/workloadtest"
)

type agent struct {
	workload.UnimplementedSpiffeWorkloadAPIServer

	authority *workloadtest.Authority
	lifetime  time.Duration
	pods      *pods
}

// FetchX509SVID implements the Workload API: an SVID now, and another one at half of its lifetime (SPIFFE Workload API,
// 5.2.1).
func (a *agent) FetchX509SVID(_ *workload.X509SVIDRequest, stream grpc.ServerStreamingServer[workload.X509SVIDResponse]) error {
	ctx := stream.Context()
	if values := metadata.ValueFromIncomingContext(ctx, "workload.spiffe.io"); len(values) != 1 || values[0] != "true" {
		return status.Error(codes.InvalidArgument, "the security header is missing")
	}
	p, _ := peer.FromContext(ctx)
	caller, ok := p.AuthInfo.(caller)
	if !ok {
		return status.Error(codes.Internal, "the caller is not known")
	}
	who, err := a.pods.of(ctx, caller.pid)
	if err != nil {
		fmt.Fprintf(os.Stderr, "process %d gets no SVID: %v\n", caller.pid, err)
		return status.Errorf(codes.PermissionDenied, "no identity issued: %v", err)
	}
	for {
		svid, err := a.authority.Issue("/ns/"+who.namespace+"/pod/"+who.name, a.lifetime)
		if err != nil {
			return status.Errorf(codes.Internal, "issue an SVID: %v", err)
		}
		response, err := workloadtest.Response(svid, a.authority)
		if err != nil {
			return status.Errorf(codes.Internal, "encode an SVID: %v", err)
		}
		if err := stream.Send(response); err != nil {
			return err
		}
		renewal := time.NewTimer(a.lifetime / 2)
		select {
		case <-ctx.Done():
			renewal.Stop()
			return nil
		case <-renewal.C:
		}
	}
}
