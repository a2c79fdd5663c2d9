// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/networkservicemesh/sdk/pkg/tools/opa"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/networkservicemesh/registry-lb/internal/policy"
)

// goodCall is one that registry-lb's policies allow: nsmgr-0 forwards a refresh of client-0.
func goodCall(tb testing.TB, w *world) policy.Input {
	tb.Helper()
	return policy.Input{
		Name: nseName, Path: w.path(tb, 3, nil), PathIDs: []string{w.at(0).id}, Certificate: w.at(1).cert,
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestPolicyDefaultsAreDecidedInGo(t *testing.T) {
	server, err := policy.New(serverMasks(), clock.RealClock{})
	require.NoError(t, err)
	require.Equal(t, []string{
		"policies/common/tokens_chained.rego (Go)", "policies/common/tokens_expired.rego (Go)",
		"policies/common/tokens_valid.rego (Go)", "policies/registry/client_allowed.rego (Go)",
		"policies/server/prev_token_signed.rego (Go)",
	}, server.Names(), "an SDK with other texts needs the rules compared with them, and then their digests")

	client, err := policy.New(clientMasks(), clock.RealClock{})
	require.NoError(t, err)
	require.Contains(t, client.Names(), "policies/client/next_token_signed.rego (Go)")
}

func TestPolicyRefusesWithTheStatusOfNSM(t *testing.T) {
	w := newWorld(t)
	c, err := policy.New(serverMasks(), clock.RealClock{})
	require.NoError(t, err)
	require.NoError(t, c.Check(t.Context(), goodCall(t, w)))

	for name, row := range map[string]struct {
		spoil  func(in *policy.Input)
		code   codes.Code
		policy string
	}{
		"somebody else's name": {func(in *policy.Input) { in.PathIDs = []string{w.other.id} },
			codes.PermissionDenied, "policies/registry/client_allowed.rego"},
		"no certificate": {func(in *policy.Input) { in.Certificate = nil },
			codes.PermissionDenied, "policies/server/prev_token_signed.rego"},
		"another peer's certificate": {func(in *policy.Input) { in.Certificate = w.other.cert },
			codes.PermissionDenied, "policies/server/prev_token_signed.rego"},
		"an expired token": {func(in *policy.Input) {
			in.Path.PathSegments[1].Token = w.token(t, 1, flaw{"", exp("1000000000")})
		}, codes.PermissionDenied, "policies/common/tokens_expired.rego"},
		"a token for another audience": {func(in *policy.Input) {
			in.Path.PathSegments[1].Token = w.token(t, 1, flaw{"", aud(`["spiffe://nsm.test/else"]`)})
		}, codes.PermissionDenied, "policies/common/tokens_chained.rego"},
		"a token for two audiences": {func(in *policy.Input) {
			in.Path.PathSegments[1].Token = w.token(t, 1, flaw{"", aud(`[ME,"spiffe://nsm.test/else"]`)})
		}, codes.Internal, "policies/common/tokens_chained.rego"},
		"a token that makes OPA panic": {func(in *policy.Input) {
			in.Path.PathSegments[1].Token = w.token(t, 1, flaw{"", header(`{"cty":1}`)})
		}, codes.Internal, "policies/common/tokens_chained.rego"},
	} {
		t.Run(name, func(t *testing.T) {
			in := goodCall(t, w)
			row.spoil(&in)
			err := c.Check(t.Context(), in)
			require.Equal(t, row.code, status.Code(err))
			var refused *policy.RefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, row.policy, refused.Policy)
			noToken(t, err, in)
		})
	}
}

func TestPolicyRefusesAnIndexOutOfThePathAsUpdatepathDoes(t *testing.T) {
	w := newWorld(t)
	c, err := policy.New([]string{"etc/nsm/opa/registry/client_allowed.rego"}, clock.RealClock{})
	require.NoError(t, err)
	for _, index := range []uint32{3, 4, 1 << 31, 1<<32 - 1} {
		in := goodCall(t, w)
		in.Path.Index = index
		err := c.Check(t.Context(), in)
		require.EqualError(t, err, fmt.Sprintf(
			"Path.Index+1==%d should be less or equal len(Path.PathSegments)==3", uint64(index)+1))
		require.Equal(t, codes.Unknown, status.Code(err))
	}
}

// noToken fails if err repeats a token, or a part of one that says something.
func noToken(t *testing.T, err error, in policy.Input) {
	t.Helper()
	for _, segment := range in.Path.PathSegments {
		for _, part := range strings.Split(segment.Token, ".") {
			if len(part) > 8 {
				require.NotContains(t, err.Error(), part)
			}
		}
	}
}

func TestPolicyEmptyListMeansNoCheck(t *testing.T) {
	for _, masks := range [][]string{nil, {}} {
		c, err := policy.New(masks, clock.RealClock{})
		require.NoError(t, err)
		require.Empty(t, c.Names())
		require.NoError(t, c.Check(t.Context(), policy.Input{Path: &grpcmetadata.Path{
			Index: 99, PathSegments: []*grpcmetadata.PathSegment{nil},
		}}))
	}
}

func TestPolicyNewSaysWhatIsWrongWithAMask(t *testing.T) {
	for name, row := range map[string]struct{ mask, says string }{
		"a mask that selects nothing":     {"etc/nsm/opa/commn/.*.rego", `policy mask "etc/nsm/opa/commn/.*.rego" selects no file`},
		"an absolute path to the default": {"/etc/nsm/opa/common/.*.rego", "selects no file"},
		"an empty mask":                   {"", `policy mask "" selects no file`},
		"a mask that is no expression":    {"etc/nsm/opa/(", "failed to compile regexp"},
		"a policy without a package":      {write(t, "bare.rego", "default valid = true"), "missed package"},
		"a policy that does not compile":  {write(t, "broken.rego", "package nsm\nvalid {"), "rego_parse_error"},
		"a policy that is empty":          {write(t, "empty.rego", ""), "policy"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.New([]string{"etc/nsm/opa/common/.*.rego", row.mask}, clock.RealClock{})
			require.ErrorContains(t, err, row.says)
		})
	}
}

func TestPolicyCustomFilesGoThroughOPA(t *testing.T) {
	w := newWorld(t)
	text, err := os.ReadFile(filepath.Join("testdata", "prefix.rego"))
	require.NoError(t, err)
	custom := write(t, "prefix.rego", string(text))
	masks := append(serverMasks(), custom)
	c := newContest(t, masks...)
	require.Equal(t, custom+" (OPA)", c.checker.Names()[5])
	require.Contains(t, c.checker.Names()[0], "(Go)")

	in := goodCall(t, w)
	require.NoError(t, c.checker.Check(t.Context(), in))
	require.Empty(t, c.differs(t.Context(), in))
	// What the custom policy looks at: the name, the owner's entry and the certificate.
	for _, spoil := range []func(*policy.Input){
		func(in *policy.Input) { in.Name = "other" },
		func(in *policy.Input) { in.PathIDs = nil },
		func(in *policy.Input) { in.Certificate = w.other.cert },
		func(in *policy.Input) { in.Name = "nse-broken" },
	} {
		in := goodCall(t, w)
		spoil(&in)
		require.Error(t, c.checker.Check(t.Context(), in))
		require.Empty(t, c.differs(t.Context(), in))
	}
}

func TestPolicyChangedDefaultGoesThroughOPA(t *testing.T) {
	denies := write(t, "client_allowed.rego", "package nsm\n\ndefault valid = false\n")
	c := newContest(t, denies)
	require.Equal(t, []string{denies + " (OPA)"}, c.checker.Names())
	in := goodCall(t, newWorld(t))
	require.Equal(t, codes.PermissionDenied, status.Code(c.checker.Check(t.Context(), in)))
	require.Empty(t, c.differs(t.Context(), in))
}

// It is the text that counts: a copy elsewhere is known, and one comment more makes another text.
func TestPolicyIsKnownByItsTextAlone(t *testing.T) {
	policies, err := opa.PoliciesByFileMask("etc/nsm/opa/registry/client_allowed.rego")
	require.NoError(t, err)
	text := policy.SourceOf(policies[0])
	require.Contains(t, text, "package nsm")
	for _, row := range []struct{ text, by string }{{text, "Go"}, {text + "\n", "OPA"}, {"# x\n" + text, "OPA"}} {
		file := write(t, "renamed.rego", row.text)
		c, err := policy.New([]string{file}, clock.RealClock{})
		require.NoError(t, err)
		require.Equal(t, []string{file + " (" + row.by + ")"}, c.Names())
	}
}

// A policy that sends a token elsewhere and is cut short fails with an error that OPA words.
func TestPolicyErrorsNeverRepeatAToken(t *testing.T) {
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	leaky := write(t, "leaky.rego", fmt.Sprintf(`package nsm

default valid = false

valid {
	http.send({"method": "get", "url": concat("", ["http://%s/", input.path_segments[0].token])}).status_code == 200
}
`, silent.Addr()))
	c, err := policy.New([]string{leaky}, clock.RealClock{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	in := goodCall(t, newWorld(t))
	err = c.Check(ctx, in)
	require.Equal(t, codes.Internal, status.Code(err))
	noToken(t, err, in)
}

func TestPolicyAsksOPAUnderTheCallersContext(t *testing.T) {
	loop := write(t, "loop.rego", "package nsm\n\ndefault valid = false\n\nvalid {\n\tnumbers.range(1, 100000)[_] + numbers.range(1, 100000)[_] == -1\n}\n")
	c, err := policy.New([]string{loop}, clock.RealClock{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = c.Check(ctx, policy.Input{})
	require.Equal(t, codes.Internal, status.Code(err))
}

// In the bubble, OPA and the clock of the rules see the same unmoving time, so the last nanosecond can be compared.
func TestPolicyExpiresAtTheNanosecondThatOPADoes(t *testing.T) {
	w := newWorld(t)
	for _, text := range []string{"%d", "%d.0", "%d.000000001", "%d.5", "%d.999999999", "%d.9999999999", "%d.00000000000000000001", "%de0"} {
		for _, ahead := range []time.Duration{0, 1, 499_999_999, 500_000_000, 500_000_001, 999_999_998, 999_999_999} {
			synctest.Test(t, func(t *testing.T) {
				all := newContest(t, "etc/nsm/opa/common/tokens_expired.rego")
				<-time.After(ahead)
				now := time.Now()
				for seconds := now.Unix() - 1; seconds <= now.Unix()+1; seconds++ {
					in := policy.Input{Path: &grpcmetadata.Path{PathSegments: []*grpcmetadata.PathSegment{
						{Token: w.token(t, 0, flaw{"", exp(fmt.Sprintf(text, seconds))})},
					}}}
					require.Empty(t, all.differs(t.Context(), in), "exp "+text+" at %s", seconds, now)
				}
			})
		}
	}
}

func TestPolicyReadsTheClockItIsGiven(t *testing.T) {
	w := newWorld(t)
	in := goodCall(t, w)
	clk := clocktesting.NewFakePassiveClock(time.Now())
	c, err := policy.New(serverMasks(), clk)
	require.NoError(t, err)
	require.NoError(t, c.Check(t.Context(), in))
	clk.SetTime(time.Now().Add(11 * time.Minute))
	require.Equal(t, codes.PermissionDenied, status.Code(c.Check(t.Context(), in)))
}

func TestPolicyLeavesItsInputAlone(t *testing.T) {
	w := newWorld(t)
	c, err := policy.New(append(serverMasks(), filepath.Join("testdata", "prefix.rego")), clock.RealClock{})
	require.NoError(t, err)
	in := goodCall(t, w)
	in.Path.Index = 1
	in.Certificate = w.at(0).cert
	before := in.Path.Clone()
	require.NoError(t, c.Check(t.Context(), in))
	require.Equal(t, before, in.Path)
	require.Len(t, in.Path.PathSegments, 3)
}

func TestPolicyIsSafeForConcurrentUse(t *testing.T) {
	w := newWorld(t)
	c, err := policy.New(append(serverMasks(), filepath.Join("testdata", "prefix.rego")), clock.RealClock{})
	require.NoError(t, err)
	good, foreign, odd := goodCall(t, w), goodCall(t, w), goodCall(t, w)
	foreign.PathIDs = []string{w.other.id}
	odd.Path.PathSegments[0].Token = w.token(t, 0, flaw{"", exp("9e10")})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20 {
				assert.NoError(t, c.Check(t.Context(), good))
				assert.NoError(t, c.Check(t.Context(), odd))
				assert.Error(t, c.Check(t.Context(), foreign))
			}
		})
	}
	group.Wait()
}
