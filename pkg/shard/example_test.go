// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

func ExampleTable() {
	table := shard.NewTable(clock.RealClock{})
	table.SetMembers([]shard.Member{{Name: "registry-0"}, {Name: "registry-1"}}, nil)

	// Nobody holds the key yet: the ring decides, and the answer is told to the table.
	key := shard.NSEKey("firewall-7d9f8b6c5d-x2x7q")
	route, _ := table.Route(key, nil)
	fmt.Println(route.Member, route.Reason)
	table.Registered(key, shard.Registration{Member: route.Member, Expires: time.Now().Add(10 * time.Minute)})

	// From now on the key stays where it is, however many members come.
	table.SetMembers([]shard.Member{{Name: "registry-0"}, {Name: "registry-1"}, {Name: "registry-2"}}, nil)
	route, _ = table.Route(key, nil)
	fmt.Println(route.Member, route.Reason)

	// When its holder leaves, the ring decides again.
	table.SetMembers([]shard.Member{{Name: "registry-2"}}, nil)
	route, _ = table.Route(key, nil)
	fmt.Println(route.Member, route.Reason)
	// Output:
	// registry-1 ring
	// registry-1 holder
	// registry-2 ring
}
