// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"crypto/x509"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/networkservicemesh/registry-lb/internal/policy"
)

const nseName = "nse-1"

func TestPolicyDecidesAsOPAOnEachFlawAtEachPlace(t *testing.T) {
	w := newWorld(t)
	all := contests(t)
	for _, f := range flaws() {
		t.Run(f.name, func(t *testing.T) {
			for place := range 3 {
				in := policy.Input{
					Name:    nseName,
					Path:    w.path(t, 4, map[int]flaw{place: f}),
					PathIDs: []string{w.at(0).id},
					// The peer is who signed the token in question, so that its signature is what decides.
					Certificate: w.at(place).cert,
				}
				in.Path.Index = uint32(place + 1)
				for i := range all {
					require.Empty(t, all[i].differs(t.Context(), in), "segment %d before the own", place)
				}
				in.Side, in.Path.Index = policy.Client, uint32(max(place-1, 0))
				for i := range all {
					require.Empty(t, all[i].differs(t.Context(), in), "segment %d behind the own", place)
				}
			}
		})
	}
}

// An error outranks a denial, whichever comes first on the path.
func TestPolicyDecidesAsOPAWhenOneTokenIsDeniedAndAnotherFails(t *testing.T) {
	w := newWorld(t)
	all := contests(t)
	denied := []flaw{
		{"garbage", after(always("token"))}, {"no exp", exp(``)}, {"expired", exp(`1`)}, {"no sub", sub(``)}, {"no aud", aud(``)},
	}
	failing := []flaw{
		{"cty 1", header(`{"cty":1}`)}, {"huge exp", exp(`1e999999999`)}, {"two results", aud(`[ME,"x"]`)},
	}
	for _, d := range denied {
		for _, f := range failing {
			for _, flawed := range []map[int]flaw{{0: d, 2: f}, {0: f, 2: d}} {
				in := policy.Input{Name: nseName, Path: w.path(t, 4, flawed), Certificate: w.at(2).cert}
				for i := range all {
					require.Empty(t, all[i].differs(t.Context(), in), "%s and %s", d.name, f.name)
				}
			}
		}
	}
}

func TestPolicyDecidesAsOPAOnPathsOfAllLengths(t *testing.T) {
	w := newWorld(t)
	all := contests(t)
	for _, n := range []int{0, 1, 2, 3, 10} {
		for _, index := range []uint32{0, 1, uint32(max(n, 1) - 1), uint32(n), uint32(n) + 1, 100_001, 1_500_000, math.MaxUint32 - 1, math.MaxUint32} {
			for _, side := range []policy.Side{policy.Server, policy.Client} {
				in := policy.Input{
					Side: side, Name: nseName, Path: w.path(t, n, nil), PathIDs: []string{w.at(0).id},
					Certificate: w.at(max(n-2, 0)).cert,
				}
				in.Path.Index = index
				for i := range all {
					require.Empty(t, all[i].differs(t.Context(), in), "%d segments, index %d, side %d", n, index, side)
				}
			}
		}
	}
}

func TestPolicyDecidesAsOPAOnTenThousandSegments(t *testing.T) {
	w := newWorld(t)
	// Four signed tokens, repeated: signing ten thousand is not what is tested.
	four := w.path(t, 4, nil).PathSegments
	path := &grpcmetadata.Path{Index: 9_999}
	for i := range 10_000 {
		path.PathSegments = append(path.PathSegments, four[i%4])
	}
	c := newContest(t, serverMasks()...)
	in := policy.Input{Name: nseName, Path: path, PathIDs: []string{w.at(0).id}, Certificate: w.at(9_998).cert}
	require.NoError(t, c.checker.Check(t.Context(), in))
	require.Empty(t, c.differs(t.Context(), in))
}

func TestPolicyDecidesAsOPAOnPathsThatAreMissingOrNull(t *testing.T) {
	w := newWorld(t)
	all := contests(t)
	good := &grpcmetadata.PathSegment{Token: w.token(t, 0, flaws()[0])}
	paths := map[string]*grpcmetadata.Path{
		"no path":               nil,
		"no segments":           {},
		"no segments, index 5":  {Index: 5},
		"an empty list":         {PathSegments: []*grpcmetadata.PathSegment{}, Index: 2},
		"a null segment":        {PathSegments: []*grpcmetadata.PathSegment{nil}},
		"a null segment first":  {PathSegments: []*grpcmetadata.PathSegment{nil, good}, Index: 1},
		"a null segment behind": {PathSegments: []*grpcmetadata.PathSegment{good, nil}, Index: 1},
		"a null segment after":  {PathSegments: []*grpcmetadata.PathSegment{good, nil}, Index: 0},
	}
	for name, path := range paths {
		for _, side := range []policy.Side{policy.Server, policy.Client} {
			for _, cert := range []*x509.Certificate{nil, w.at(0).cert} {
				in := policy.Input{Side: side, Name: nseName, Path: path, Certificate: cert}
				for i := range all {
					require.Empty(t, all[i].differs(t.Context(), in), "%s, side %d", name, side)
				}
			}
		}
	}
}

func TestPolicyDecidesAsOPAForEachOwnerAndCertificate(t *testing.T) {
	w := newWorld(t)
	all := contests(t)
	owners := map[string][]string{
		"unknown":               nil,
		"nobody":                {},
		"the caller":            {w.at(0).id},
		"the caller and more":   {w.at(0).id, w.at(1).id, w.at(0).id},
		"somebody else":         {w.other.id},
		"the caller as second":  {w.other.id, w.at(0).id},
		"the empty ID":          {""},
		"invalid UTF-8":         {"\xff"},
		"the caller and a byte": {w.at(0).id + "\xff"},
	}
	for _, name := range []string{nseName, "", "ñsé-☃", "nse@other.domain", "nse\xff", "\u2028<&>", strings.Repeat("n", 5000)} {
		for owner, ids := range owners {
			in := policy.Input{Name: name, Path: w.path(t, 2, nil), PathIDs: ids, Certificate: w.at(0).cert}
			require.Empty(t, all[0].differs(t.Context(), in), "%q owned by %s", name, owner)
			in.Side, in.Path.Index, in.Certificate = policy.Client, 0, w.at(1).cert
			require.Empty(t, all[1].differs(t.Context(), in), "%q owned by %s, client", name, owner)
		}
	}
	for i, cert := range w.parsed {
		in := policy.Input{Name: nseName, Path: w.path(t, 2, nil), Certificate: cert}
		require.Empty(t, all[0].differs(t.Context(), in), "certificate %d", i)
		in.Side, in.Path.Index = policy.Client, 0
		require.Empty(t, all[1].differs(t.Context(), in), "certificate %d, client", i)
	}
}

// The element may know many NSEs: its policies look up only the one.
func TestPolicyDecidesByTheOneEntryAsOPADoesByTheWholeMap(t *testing.T) {
	w := newWorld(t)
	c, kinds := newContest(t, serverMasks()...), flaws()
	for i := range 100 {
		c.reference.entries.Store(fmt.Sprintf("nse-%d", i+2), []string{w.at(i).id})
		c.reference.entries.Store(w.at(i).id, []string{w.other.id})
	}
	for _, ids := range [][]string{nil, {}, {w.at(0).id}, {w.other.id}} {
		for _, f := range []flaw{kinds[0], kinds[1], kinds[13], kinds[35]} {
			in := policy.Input{Name: nseName, Path: w.path(t, 2, map[int]flaw{0: f}), PathIDs: ids, Certificate: w.at(0).cert}
			require.Empty(t, c.differs(t.Context(), in), "%s, owner %v", f.name, ids)
		}
	}
}

func TestPolicyDecidesAsOPAOnRandomChains(t *testing.T) {
	w := newWorld(t)
	all := contests(t)
	kinds := flaws()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 6).Draw(rt, "segments")
		flawed := map[int]flaw{}
		for i := range n {
			if rapid.IntRange(0, 3).Draw(rt, "flawed") == 0 {
				f := rapid.SampledFrom(kinds).Draw(rt, "flaw")
				if rapid.Bool().Draw(rt, "random claims") {
					f = flaw{"random", payload(object().Draw(rt, "payload"))}
				}
				flawed[i] = f
			}
		}
		path := w.path(t, n, flawed)
		path.Index = rapid.OneOf(rapid.Just(path.Index), rapid.Uint32Range(0, uint32(n)+2), rapid.Uint32()).Draw(rt, "index")
		in := policy.Input{
			Side:        rapid.SampledFrom([]policy.Side{policy.Server, policy.Client}).Draw(rt, "side"),
			Name:        rapid.OneOf(rapid.Just(nseName), rapid.String()).Draw(rt, "name"),
			Path:        path,
			PathIDs:     rapid.SampledFrom([][]string{nil, {}, {w.at(0).id}, {w.other.id}, {""}, {w.at(0).id, w.other.id}}).Draw(rt, "owner"),
			Certificate: rapid.SampledFrom(w.parsed).Draw(rt, "certificate"),
		}
		for i := range all {
			if difference := all[i].differs(t.Context(), in); difference != "" {
				rt.Fatal(difference)
			}
		}
	})
}

// object generates JSON objects around the claims that policies read.
func object() *rapid.Generator[string] {
	scalar := rapid.SampledFrom([]string{
		"null", "true", "false", "0", "1", "-1", "1.5", "1e3", "99999999999", "99999999999.5", `""`, `"a"`, `"\u0061"`,
		`"spiffe://nsm.test/ns/nsm/pod/nsmgr-0"`, `"spiffe://nsm.test/ns/nsm/pod/client-0"`, "{}", "[]",
	})
	value := rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return "[" + strings.Join(rapid.SliceOfN(scalar, 0, 3).Draw(t, "elements"), ",") + "]"
		case 1:
			return `{"k":` + scalar.Draw(t, "member") + `}`
		default:
			return scalar.Draw(t, "scalar")
		}
	})
	name := rapid.SampledFrom([]string{`"sub"`, `"aud"`, `"exp"`, `"Sub"`, `"AUD"`, `"\u0065xp"`, `"x"`})
	return rapid.Custom(func(t *rapid.T) string {
		members := make([]string, rapid.IntRange(0, 6).Draw(t, "members"))
		for i := range members {
			members[i] = name.Draw(t, "name") + ":" + value.Draw(t, "value")
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}
