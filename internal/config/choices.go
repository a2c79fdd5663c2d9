// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
)

// Store says which NSEs one replica knows.
type Store string

const (
	// StoreShared is a store behind all replicas: each knows all NSEs, so one can answer for all.
	StoreShared Store = "shared"
	// StorePartitioned is a store of each replica's own: it knows what was registered there and no more.
	StorePartitioned Store = "partitioned"
)

// UnmarshalText reads the name of a store.
func (s *Store) UnmarshalText(text []byte) error {
	return choose(s, text, StoreShared, StorePartitioned)
}

// TLSMode says how connections are secured, towards clients and replicas alike.
type TLSMode string

const (
	// TLSSpiffe is mutual TLS with the certificates of the SPIFFE Workload API.
	TLSSpiffe TLSMode = "spiffe"
	// TLSInsecure is plain text without any identity: for loopback and tests.
	TLSInsecure TLSMode = "insecure"
)

// UnmarshalText reads the name of a mode.
func (m *TLSMode) UnmarshalText(text []byte) error {
	return choose(m, text, TLSSpiffe, TLSInsecure)
}

// choose sets dst to the one of choices that text names.
func choose[T ~string](dst *T, text []byte, choices ...T) error {
	s := T(strings.ToLower(strings.TrimSpace(string(text))))
	if slices.Contains(choices, s) {
		*dst = s
		return nil
	}
	names := make([]string, len(choices))
	for i, c := range choices {
		names[i] = string(c)
	}
	return fmt.Errorf("it is one of %s", strings.Join(names, ", "))
}
