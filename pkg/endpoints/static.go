// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"cmp"
	"context"
	"slices"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// staticSource is a list that never changes.
type staticSource struct {
	members []shard.Member
}

func newStaticSource(addrs []string) *staticSource {
	return &staticSource{members: membersAt(addrs)}
}

func (s *staticSource) Run(ctx context.Context, update func([]shard.Member)) error {
	update(s.members)
	<-ctx.Done()
	return nil
}

func (s *staticSource) Describe() string { return "static list" }

func (s *staticSource) Err() error { return nil }

// membersAt returns the members of a list of addresses that has no duplicates: no pod is known, so the address is the
// place and the life of each.
func membersAt(addrs []string) []shard.Member {
	members := make([]shard.Member, 0, len(addrs))
	for _, addr := range addrs {
		members = append(members, shard.Member{Name: addr, UID: addr, Addrs: []string{addr}, Phase: shard.Ready})
	}
	slices.SortFunc(members, byName)
	return members
}

func byName(a, b shard.Member) int { return cmp.Compare(a.Name, b.Name) }
