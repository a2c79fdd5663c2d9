// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"testing"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logrus.SetLevel(logrus.FatalLevel) // the SDK's chains say much
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*loggingT).flushDaemon"))
}
