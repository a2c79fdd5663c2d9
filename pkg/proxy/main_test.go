// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"flag"
	"testing"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // tests wait most of the time
		panic(err)
	}
	logrus.SetLevel(logrus.FatalLevel) // the SDK's chains say much
	goleak.VerifyTestMain(m)
}
