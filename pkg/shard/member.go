// SPDX-License-Identifier: Apache-2.0

package shard

// Phase says what the source of members (EndpointSlices, a list, a file) thinks of one member.
// It is the source's word alone: whether the member answers its probes is known elsewhere.
type Phase uint8

const (
	// Ready members may be given calls.
	Ready Phase = iota
	// NotReady members exist but asked not to be given calls.
	NotReady
	// Terminating members are about to leave and must not be given calls.
	Terminating
)

// String returns the phase as it is shown to people and in the admin API.
func (p Phase) String() string {
	switch p {
	case Ready:
		return "ready"
	case NotReady:
		return "not ready"
	case Terminating:
		return "terminating"
	default:
		return "unknown"
	}
}

// Member is one registry replica, as its source describes it. It is a value: whoever is given one must not
// change the slices in it.
type Member struct {
	// Name is the member's place in the ring: the pod's name, or the address where no pod stands behind it. A
	// StatefulSet pod that comes back has the same Name and so gets its keys back. Unique within a snapshot.
	Name string
	// UID is the member's life: the pod's UID, or the address where no pod stands behind it. The same Name with
	// another UID is a new process: its memory is gone and connections to the old one are worth nothing.
	UID string
	// Addrs are the "host:port" addresses at which the member can be reached, the preferred one first; never
	// empty. A dual-stack pod has one of each family.
	Addrs []string
	// Node and Zone say where the member runs; empty if unknown. For people: routing does not look at them.
	Node, Zone string
	// Phase is what the source thinks of the member.
	Phase Phase
}
