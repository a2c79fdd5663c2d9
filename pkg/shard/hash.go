// SPDX-License-Identifier: Apache-2.0

package shard

import "github.com/cespare/xxhash/v2"

// golden is 2^64 divided by the golden ratio: multiples of it lie far apart, so they make good salts.
const golden = 0x9e3779b97f4a7c15

// hashKey returns the place of k on the hash circle. It is the same in every process and on every architecture:
// registry-lb replicas agree on the ring without talking to each other.
//
// The name is hashed first and the space mixed in afterwards, because a seeded xxhash costs twice as much. The mixing
// is a bijection, so it adds no collisions to those of xxhash.
func hashKey(k Key) uint64 {
	return mix(xxhash.Sum64String(k.Name) + uint64(k.Space)*golden)
}

// mix is the finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA
// 2014): a bijection in which every bit of the input changes about half of the output.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return x
}
