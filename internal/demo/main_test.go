// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/networkservicemesh/registry-lb/internal/logging"
)

func TestMain(m *testing.M) {
	logging.Install(zap.NewNop(), zap.NewAtomicLevelAt(zap.FatalLevel))
	goleak.VerifyTestMain(m)
}
