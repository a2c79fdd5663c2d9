// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

func TestExpirationTimeIsFilledIn(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 4, 5, 6, 7, 89, time.UTC)
	in := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339Nano) }
	for _, row := range []struct {
		name     string
		existing *timestamppb.Timestamp
		tokens   []string // expiration times in the metadata
		lifetime time.Duration
		want     time.Time
	}{
		{"the token's, if it ends before the longest lifetime", nil, []string{in(3 * time.Minute)}, 0, now.Add(3 * time.Minute)},
		{"the longest lifetime, if the token lasts longer", nil, []string{in(time.Hour)}, 0, now.Add(10 * time.Minute)},
		{"the longest lifetime that is set", nil, []string{in(time.Hour)}, 5 * time.Minute, now.Add(5 * time.Minute)},
		{"the longest lifetime without a token", nil, nil, 0, now.Add(10 * time.Minute)},
		{"the longest lifetime if the token's makes no sense", nil, []string{"soon"}, 0, now.Add(10 * time.Minute)},
		{"of several tokens the first to expire", nil, []string{in(3 * time.Minute), "soon", in(time.Minute), in(2 * time.Minute)}, 0, now.Add(time.Minute)},
		{"what is there stays, however long", timestamppb.New(now.Add(24 * time.Hour)), []string{in(time.Minute)}, 0, now.Add(24 * time.Hour)},
		{"what is there stays, however short", timestamppb.New(now.Add(-time.Hour)), []string{in(time.Minute)}, 0, now.Add(-time.Hour)},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := nseFlavour()
			m := startScripted(t, "a")
			got := make(chan *registry.NetworkServiceEndpoint, 1)
			m.set(func(c *call) error {
				got <- c.request.(*registry.NetworkServiceEndpoint)
				return obliging(c)
			})
			front := startFront(t, proxy.Options{Clock: testingclock.NewFakeClock(now), MaxTokenLifetime: row.lifetime}, m.Member)
			ctx := metadata.NewOutgoingContext(within(t), metadata.MD{"nsm-client-token-expires": row.tokens})
			nse := &registry.NetworkServiceEndpoint{Name: "name", ExpirationTime: row.existing}
			resp, err := f.register(ctx, front.cc, nse)
			require.NoError(t, err)
			require.Equal(t, row.want, (<-got).GetExpirationTime().AsTime())
			require.Equal(t, row.want, resp.(*registry.NetworkServiceEndpoint).GetExpirationTime().AsTime())

			_, err = f.unregister(ctx, front.cc, nse)
			require.NoError(t, err)
			require.Equal(t, row.existing.AsTime(), (<-got).GetExpirationTime().AsTime(), "of no use to who goes")
		})
	}
}
