// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"cmp"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// merge makes one snapshot of all slices of a Service. It is pure: the order of slices, and which endpoint is in which
// slice, make no difference. The API lets an endpoint be in several slices at a time (the controller adds it to the
// new one before it removes it from the old one), so what the slices say is collected by member:
//
//   - One name is one member, whatever the number of slices, families and addresses. All its addresses are kept.
//   - One pod UID: terminating if any slice says so, since a pod never comes back from that and a slice that says
//     otherwise is old. Else ready if any slice says so: of an old and a new word, the wrong "ready" costs one probe,
//     the wrong "not ready" moves keys.
//   - One pod name with two UIDs is a StatefulSet pod that was replaced, of which a slice still shows the old one. The
//     better phase wins, then the UID in the slice written last. The loser adds nothing, not even an address.
//   - One address with two names is an address that was given to another pod. Both are members, each with its own
//     phase, so the one that leaves does not hide the one that came.
//   - An endpoint without a pod whose address a pod has too, in the same phase or a better one, is that pod.
//
// The problems are sorted and without duplicates.
func merge(from []*discoveryv1.EndpointSlice, port Port) ([]shard.Member, []problem) {
	named := make(map[string][]claim)
	var problems []problem
	for _, slice := range from {
		claims, faults := readSlice(slice, port)
		for _, c := range claims {
			named[c.name] = append(named[c.name], c)
		}
		problems = append(problems, faults...)
	}

	members := make([]shard.Member, 0, len(named))
	podAt := make(map[string]shard.Phase, len(named)) // address -> best phase of a pod there
	for name, claims := range named {
		if !claims[0].pod {
			continue
		}
		m := unite(name, claims)
		members = append(members, m)
		for _, addr := range m.Addrs {
			if phase, taken := podAt[addr]; !taken || m.Phase < phase {
				podAt[addr] = m.Phase
			}
		}
	}
	for name, claims := range named {
		if claims[0].pod {
			continue
		}
		m := unite(name, claims)
		if phase, taken := podAt[name]; taken && phase <= m.Phase {
			continue
		}
		members = append(members, m)
	}
	slices.SortFunc(members, byName)

	slices.SortFunc(problems, func(a, b problem) int { return cmp.Or(cmp.Compare(a.slice, b.slice), cmp.Compare(a.what, b.what)) })
	return members, slices.Compact(problems)
}

// unite makes one member of all claims with its name.
func unite(name string, claims []claim) shard.Member {
	uid, phase := chooseLife(claims)
	m := shard.Member{Name: name, UID: uid, Phase: phase}
	addrs := make([]address, 0, 2)
	for _, c := range claims {
		if c.uid != uid {
			continue
		}
		addrs = append(addrs, c.address)
		m.Node = preferred(m.Node, c.node)
		m.Zone = preferred(m.Zone, c.zone)
	}
	slices.SortFunc(addrs, compareAddresses)
	for _, a := range slices.Compact(addrs) {
		m.Addrs = append(m.Addrs, a.text)
	}
	if m.UID == "" {
		m.UID = m.Addrs[0] // the pod is named but its UID is not: another address is the best sign of another life
	}
	return m
}

// chooseLife returns the UID that the name stands for now, and its phase.
func chooseLife(claims []claim) (string, shard.Phase) {
	type life struct {
		uid     string
		phase   shard.Phase
		version string // newest slice that shows it
	}
	lives := make([]life, 0, 1)
	for _, c := range claims {
		i := slices.IndexFunc(lives, func(l life) bool { return l.uid == c.uid })
		if i < 0 {
			lives = append(lives, life{uid: c.uid, phase: c.phase, version: c.version})
			continue
		}
		l := &lives[i]
		l.phase = combine(l.phase, c.phase)
		if compareVersions(c.version, l.version) > 0 {
			l.version = c.version
		}
	}
	best := slices.MinFunc(lives, func(a, b life) int {
		return cmp.Or(
			cmp.Compare(a.phase, b.phase),
			compareVersions(b.version, a.version),
			cmp.Compare(a.uid, b.uid), // no better reason is left, but the answer must not depend on the order
		)
	})
	return best.uid, best.phase
}

// combine joins what two slices say about one life.
func combine(a, b shard.Phase) shard.Phase {
	if a == shard.Terminating || b == shard.Terminating {
		return shard.Terminating
	}
	return min(a, b)
}

// preferred returns the one that is known; if the slices differ, always the same one.
func preferred(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return min(a, b)
}
