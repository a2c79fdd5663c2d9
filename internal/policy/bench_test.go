// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/networkservicemesh/sdk/pkg/tools/opa"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/networkservicemesh/registry-lb/internal/policy"
)

// BenchmarkCheck compares a check of the five server policies in Go, by OPA with the one entry, and by NSM's authorize
// element that knows 1 and 5,000 NSEs. The call is a refresh through nsmgr, three segments long, and is allowed.
func BenchmarkCheck(b *testing.B) {
	w := newWorld(b)
	in := goodCall(b, w)
	run := func(name string, check func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				require.NoError(b, check())
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}

	fast, err := policy.New(serverMasks(), clock.RealClock{})
	require.NoError(b, err)
	run("go", func() error { return fast.Check(b.Context(), in) })

	slow, err := policy.New(commented(b), clock.RealClock{})
	require.NoError(b, err)
	require.Contains(b, slow.Names()[0], "(OPA)")
	run("opa with one entry", func() error { return slow.Check(b.Context(), in) })

	for _, entries := range []int{1, 5000} {
		element := newReference(serverMasks()...)
		for i := range entries {
			element.entries.Store(fmt.Sprintf("nse-of-the-bench-%d", i), []string{
				"spiffe://nsm.test/ns/nsm/pod/client-" + fmt.Sprint(i), w.at(1).id, w.at(2).id,
			})
		}
		run(fmt.Sprintf("authorize element, %d NSEs", entries), func() error { return element.check(b.Context(), in) })
	}
}

// cpuTime is what the process has used, the garbage collector included; it says more than ns/op where others work too.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage unix.Rusage
	require.NoError(tb, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// commented copies the policies that NSM ships for servers, each with a comment more, so that OPA has to evaluate them.
func commented(tb testing.TB) []string {
	tb.Helper()
	policies, err := opa.PoliciesByFileMask(serverMasks()...)
	require.NoError(tb, err)
	files := make([]string, 0, len(policies))
	for _, p := range policies {
		file := filepath.Join(tb.TempDir(), filepath.Base(p.Name()))
		require.NoError(tb, os.WriteFile(file, []byte(policy.SourceOf(p)+"\n# Comment.\n"), 0o600))
		files = append(files, file)
	}
	return files
}
