// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"time"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// registered tells the directory that m answered a Register.
func (p *Proxy) registered(key shard.Key, m *member, pathIDs []string, expires time.Time) {
	if !p.directory.kept() {
		return
	}
	owner := ""
	if len(pathIDs) > 0 {
		owner = pathIDs[0]
	}
	p.remapped(p.table.Registered(key, shard.Registration{Member: m.Name, Owner: owner, Expires: expires}))
}

// unregistered tells the directory that an Unregister succeeded.
func (p *Proxy) unregistered(key shard.Key) {
	if p.directory.kept() {
		p.table.Unregistered(key)
	}
}

// remapped counts a key that has another holder than before.
func (p *Proxy) remapped(r shard.Remap) {
	if r != shard.NotRemapped {
		p.metrics.remaps.WithLabelValues(string(r)).Inc()
	}
}
