// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"slices"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// publisher gives snapshots on, leaving out those that say nothing new.
type publisher struct {
	update func([]shard.Member)
	last   []shard.Member
	sent   bool
}

// publish reports whether the snapshot was new.
func (p *publisher) publish(members []shard.Member) bool {
	if p.sent && slices.EqualFunc(p.last, members, equal) {
		return false
	}
	p.last, p.sent = members, true
	p.update(members)
	return true
}

func equal(a, b shard.Member) bool {
	return a.Name == b.Name && a.UID == b.UID && a.Phase == b.Phase && a.Node == b.Node && a.Zone == b.Zone &&
		slices.Equal(a.Addrs, b.Addrs)
}
