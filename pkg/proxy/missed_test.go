// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// registry-k8s lists first and begins to listen then. What happens in between it never tells on that stream.
func TestWatchLearnsWhatItsNewMemberMissed(t *testing.T) {
	t.Parallel()
	eachFlavour(t, func(t *testing.T, f flavour) {
		t.Helper()
		members := startScripteds(t, "a", "b")
		serving, other := members["a"], members["b"]
		front := startFront(t, proxy.Options{Rand: atOnce}, describe(members)...)
		if front.holder(t, shard.NSKey("")) == "b" {
			serving, other = other, serving
		}
		before, streamed, stored := newStore(), newStore(), newStore()
		serving.set(before.script)
		other.set(func(c *call) error {
			if c.isWatch() {
				return streamed.script(c)
			}
			return stored.script(c)
		})
		for _, s := range []*store{before, streamed} {
			for _, name := range []string{"same", "changed", "vanished"} {
				s.put(f, f.item(name))
			}
		}
		w := front.watch(t, f, "")
		require.Equal(t, []string{"changed", "same", "vanished"}, w.nextSorted(t, 3))

		stored.put(f, f.item("same"))
		stored.put(f, f.itemWith("changed", "content"))
		stored.put(f, f.item("new"))
		serving.kill()
		require.Equal(t, []string{"-vanished", "changed=content", "new"}, w.nextSorted(t, 3))
	})
}
