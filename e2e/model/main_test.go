// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	// patience is how long is waited for what must come. Nothing takes that long unless it is broken: a registry-lb that
	// waits for what will not come is ready after 15 s.
	patience = 10 * time.Second
	tick     = time.Millisecond
)

func TestMain(m *testing.M) {
	flag.Parse()
	// A hundred worlds with a hundred steps each, on the average; rapid's own default is thirty steps.
	given := make(map[string]bool)
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["rapid.steps"] {
		if err := flag.Set("rapid.steps", "100"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
