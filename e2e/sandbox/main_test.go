// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/sirupsen/logrus"
)

const (
	// lifetime bounds a scenario.
	lifetime = time.Minute
	// patience is how long is waited for what must come, and tick how often it is looked for.
	patience = 30 * time.Second
	tick     = 10 * time.Millisecond

	// resolverFile is how the machine resolves names; DNS scenarios of the SDK rewrite it.
	resolverFile = "/etc/resolv.conf"
)

func TestMain(m *testing.M) {
	log.SetGlobalLogger(log.Empty())
	logrus.SetLevel(logrus.PanicLevel)
	os.Exit(run(m))
}

// run runs the tests and fails if the machine resolves names in another way than before.
func run(m *testing.M) int {
	before, errBefore := os.ReadFile(resolverFile)
	code := m.Run()
	after, errAfter := os.ReadFile(resolverFile)
	if !bytes.Equal(before, after) || os.IsNotExist(errBefore) != os.IsNotExist(errAfter) {
		fmt.Fprintln(os.Stderr, resolverFile+" is not what it was before the tests")
		return 1
	}
	return code
}
