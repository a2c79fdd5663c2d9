// SPDX-License-Identifier: Apache-2.0

package config

import "github.com/networkservicemesh/registry-lb/pkg/endpoints"

// Backends says where the replicas come from.
type Backends struct {
	endpoints.Spec
}

// UnmarshalText reads what endpoints.ParseSpec reads.
func (b *Backends) UnmarshalText(text []byte) (err error) {
	b.Spec, err = endpoints.ParseSpec(string(text))
	return err
}
