// SPDX-License-Identifier: Apache-2.0

package shard

// Space separates keys of different kinds that may have the same name.
type Space uint8

const (
	// NSE is the space of network service endpoint names.
	NSE Space = iota
	// NS is the space of network service names.
	NS
)

// String returns the name of the space as it is used in metrics and in the admin API.
func (s Space) String() string {
	if s == NS {
		return "ns"
	}
	return "nse"
}

// Key is what is sharded: a name, whole, any "@domain" included, in its space.
type Key struct {
	Space Space
	Name  string
}

// NSEKey returns the key of the network service endpoint called name.
func NSEKey(name string) Key { return Key{Space: NSE, Name: name} }

// NSKey returns the key of the network service called name.
func NSKey(name string) Key { return Key{Space: NS, Name: name} }
