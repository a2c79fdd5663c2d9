// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"

	"github.com/networkservicemesh/registry-lb/internal/policy"
)

// FuzzPolicies looks for a call on which the Go rules and OPA differ. Each byte of recipe is a segment: a flaw, or a
// token made of the header and payload text and signed, or the text raw.
func FuzzPolicies(f *testing.F) {
	w := newWorld(f)
	single := contests(f)[2:] // a list gives the first refusal of its policies, which others test
	kinds := flaws()
	const (
		custom = 0 // header and payload of the fuzzer
		raw    = 1 // text of the fuzzer
		first  = 2 // flaws from here on
	)
	good := byte(first)
	header, claims := `{"alg":"ES256"}`, `{"sub":"spiffe://nsm.test/ns/nsm/pod/nsmgr-0","aud":["a"],"exp":99999999999}`
	for i := range kinds {
		f.Add([]byte{good, byte(first + i), good}, header, claims, "", nseName, w.at(0).id, uint32(2), uint8(5), false)
	}
	f.Add([]byte{}, "", "", "", "", "", uint32(0), uint8(0), true)
	f.Add([]byte{custom, custom}, header, claims, "", nseName, w.at(1).id, uint32(1), uint8(6), false)
	f.Add([]byte{custom, good}, header, `{"sub":1.5,"exp":99999999999.5,"aud":"x"}`, "", "ñ", "", uint32(1), uint8(6), true)
	f.Add([]byte{raw, good, raw}, header, claims, "e30.e30.", nseName, w.at(0).id, uint32(7), uint8(1), false)

	f.Fuzz(func(t *testing.T, recipe []byte, header, claims, text, name, owner string, index uint32, cert uint8, client bool) {
		path := &grpcmetadata.Path{Index: index}
		for i, kind := range recipe[:min(len(recipe), 8)] {
			var token string
			switch k := int(kind) % (first + len(kinds)); k {
			case custom:
				token = sign(t, header, claims, w.at(i).key)
			case raw:
				token = text
			default:
				token = w.token(t, i, kinds[k-first])
			}
			path.PathSegments = append(path.PathSegments, &grpcmetadata.PathSegment{Token: token})
		}
		in := policy.Input{Name: name, Path: path, Certificate: w.parsed[int(cert)%len(w.parsed)]}
		if owner != "" {
			in.PathIDs = []string{owner}
		}
		if client {
			in.Side = policy.Client
		}
		for i := range single {
			if difference := single[i].differs(t.Context(), in); difference != "" {
				t.Fatal(difference)
			}
		}
	})
}
