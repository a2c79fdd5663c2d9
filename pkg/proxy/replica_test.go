// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/golang-jwt/jwt/v4"
	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// replica is a scripted member that does what a registry does: it stores what is registered with its SPIFFE ID in the
// path_ids, and shows its ID in the path of its answers.
type replica struct {
	*scripted
	id    string
	store *store
	// following counts the directory's watches that are open here, listed its listings that were answered.
	following, listed atomic.Int64
}

// replicas are a registry, and what it noticed of calls that reached the wrong replica.
type replicas struct {
	kind   proxy.Store
	shared *store
	byName map[string]*replica

	mu      sync.Mutex
	holders map[shard.Key]string // who saw the last Register
	left    map[string]bool      // whose keys others may take over
	wrong   []string             // calls at a replica that does not hold the key
}

// startReplicas starts a registry. IDs are made of names.
func startReplicas(tb testing.TB, kind proxy.Store, names ...string) *replicas {
	tb.Helper()
	r := &replicas{
		kind:    kind,
		shared:  newStore(),
		byName:  make(map[string]*replica),
		holders: make(map[shard.Key]string),
		left:    make(map[string]bool),
	}
	for _, name := range names {
		r.start(tb, name, idOf(name))
	}
	return r
}

func idOf(name string) string { return "spiffe://test/ns/nsm-system/pod/" + name }

// start starts one replica.
func (r *replicas) start(tb testing.TB, name, id string) *replica {
	tb.Helper()
	m := &replica{scripted: startScripted(tb, name), id: id, store: r.shared}
	if r.kind == proxy.PartitionedStore {
		m.store = newStore()
	}
	path := pathOf(tb, id)
	m.set(func(c *call) error { return r.serve(m, path, c) })
	m.setOwn(introduction, func(c *call) error {
		_ = c.SetHeader(path)
		return c.SendMsg(new(emptypb.Empty))
	})
	m.setOwn(directory, func(c *call) error {
		if !c.isWatch() {
			defer m.listed.Add(1)
			return m.store.script(c)
		}
		m.following.Add(1)
		defer m.following.Add(-1)
		return m.store.script(c)
	})
	r.byName[name] = m
	return m
}

// pathOf is the header with which the replica with this ID answers a caller without a path of its own.
func pathOf(tb testing.TB, id string) metadata.MD {
	tb.Helper()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{Subject: id}).SignedString([]byte("secret"))
	require.NoError(tb, err)
	path, err := json.Marshal(grpcmetadata.Path{PathSegments: []*grpcmetadata.PathSegment{{}, {Token: token}}})
	require.NoError(tb, err)
	return metadata.Pairs("path", string(path))
}

// serve answers a client.
func (r *replicas) serve(m *replica, path metadata.MD, c *call) error {
	key := c.flavour.key(c.name())
	switch {
	case c.method == "Register":
		r.visit(m, key, c.method, true)
		item := signed(c.request, m.id)
		m.store.put(c.flavour, item)
		_ = c.SetHeader(path)
		return c.SendMsg(item)
	case c.method == "Unregister":
		r.visit(m, key, c.method, false)
		r.mu.Lock()
		delete(r.holders, key)
		r.mu.Unlock()
	case c.name() != "" && !c.isWatch():
		r.visit(m, key, c.method, false)
	}
	return m.store.script(c)
}

// signed is item with the IDs of a client and of the replica that stores it.
func signed(item proto.Message, id string) proto.Message {
	ids := []string{"spiffe://test/client", id}
	item = proto.Clone(item)
	switch item := item.(type) {
	case *registry.NetworkServiceEndpoint:
		item.PathIds = ids
	case *registry.NetworkService:
		item.PathIds = ids
	}
	return item
}

// visit notes a call about key at m.
func (r *replicas) visit(m *replica, key shard.Key, method string, holds bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if holder := r.holders[key]; holder != "" && holder != m.Name && !r.left[holder] {
		r.wrong = append(r.wrong, fmt.Sprintf("%s of %s, which %s holds, at %s", method, key.Name, holder, m.Name))
	}
	if holds {
		r.holders[key] = m.Name
	}
}

// misplaced are the calls that reached a replica that does not hold the key.
func (r *replicas) misplaced() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.wrong)
}

// held is how many keys each replica holds.
func (r *replicas) held() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := make(map[string]int)
	for _, holder := range r.holders {
		held[holder]++
	}
	return held
}

// leave says that others may take over what these hold.
func (r *replicas) leave(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		r.left[name] = true
	}
}

// has makes it so that name has been registered with the replica of that name, by somebody else.
func (r *replicas) has(f flavour, member, name string) {
	r.mu.Lock()
	r.holders[f.key(name)] = member
	r.mu.Unlock()
	m := r.byName[member]
	m.store.put(f, signed(f.item(name), m.id))
}

// describe returns the replicas of these names as their source would; without names all.
func (r *replicas) describe(names ...string) []shard.Member {
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(r.byName))
	}
	described := make([]shard.Member, 0, len(names))
	for _, name := range names {
		described = append(described, r.byName[name].Member)
	}
	return described
}

// eachStore runs test for both kinds of store.
func eachStore(t *testing.T, test func(t *testing.T, kind proxy.Store)) {
	t.Helper()
	for _, kind := range []proxy.Store{proxy.SharedStore, proxy.PartitionedStore} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}
