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
	proxy    *proxy.Proxy
	source   endpoints.Source
	front    *front
	security *security
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
			SpiffeID:  s.SpiffeID,
			Keys:      s.Keys,
			InFlight:  s.InFlight,
		})
	}
	return members
}

// Status implements admin.View.
func (v *view) Status() admin.Status {
	s := v.proxy.Status()
	return admin.Status{
		Keys:            s.Keys,
		KeysByMember:    s.KeysByMember,
		DirectorySynced: s.Synced,
		DirectoryReason: s.Reason,
		LastListing:     s.LastListing,
		DuplicateIDs:    s.DuplicateIDs,
		TableChecksum:   s.Checksum,
	}
}

// Locate implements admin.View.
func (v *view) Locate(space shard.Space, name string) (admin.Location, bool) {
	l, ok := v.proxy.Locate(shard.Key{Space: space, Name: name})
	return admin.Location{Member: l.Member, Reason: string(l.Reason), Since: l.Since, Expires: l.Expires}, ok
}

// NotReady implements admin.View.
func (v *view) NotReady() []string {
	var reasons []string
	if v.front.draining.Load() {
		reasons = append(reasons, "draining: registry-lb is about to stop")
	}
	if err := v.security.err(); err != nil {
		reasons = append(reasons, err.Error())
	}
	if err := v.source.Err(); err != nil && !v.proxy.Known() {
		return append(reasons, fmt.Sprintf("members are not known yet: %v", err))
	}
	return append(reasons, v.proxy.NotReady()...)
}
