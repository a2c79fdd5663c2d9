// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or a registry replica if it is told so: the replicas are this very binary.
func TestMain(m *testing.M) {
	if os.Getenv(envMemberName) != "" {
		if err := runMember(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*loggingT).flushDaemon"))
}
