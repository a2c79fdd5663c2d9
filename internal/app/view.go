// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	"github.com/networkservicemesh/registry-lb/internal/admin"
	"github.com/networkservicemesh/registry-lb/pkg/endpoints"
	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// view shows the parts to the admin server.
type view struct {
	proxy  *proxy.Proxy
	source endpoints.Source
	front  *front
}

// Members implements admin.View.
func (v *view) Members() []admin.Member {
	statuses := v.proxy.Members()
	members := make([]admin.Member, 0, len(statuses))
	for _, s := range statuses {
		members = append(members, admin.Member{
			Name:      s.Name,
			UID:       s.UID,
			Addresses: s.Addrs,
			Node:      s.Node,
			Zone:      s.Zone,
			State:     admin.State(s.State),
			Since:     s.Since,
			Reason:    s.Reason,
			RingShare: s.Share,
		})
	}
	return members
}

// Locate implements admin.View.
func (v *view) Locate(space shard.Space, name string) (admin.Location, bool) {
	route, ok := v.proxy.Locate(shard.Key{Space: space, Name: name})
	return admin.Location{Member: route.Member, Reason: string(route.Reason)}, ok
}

// NotReady implements admin.View.
func (v *view) NotReady() []string {
	var reasons []string
	if v.front.draining.Load() {
		reasons = append(reasons, "draining: registry-lb is about to stop")
	}
	if !v.front.synced.Load() {
		reason := fmt.Sprintf("members are not known yet: %s has not been read", v.source.Describe())
		if err := v.source.Err(); err != nil {
			reason = fmt.Sprintf("members are not known yet: %v", err)
		}
		reasons = append(reasons, reason)
	}
	return reasons
}
