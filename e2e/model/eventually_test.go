// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"fmt"
	"time"
)

// eventually returns nil as soon as check does, and what check last said if it never does.
func eventually(check func() error) error {
	err := check()
	if err == nil {
		return nil
	}
	began := time.Now()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for range ticker.C {
		if err = check(); err == nil {
			return nil
		}
		if time.Since(began) > patience {
			return fmt.Errorf("still after %v: %w", patience, err)
		}
	}
	return err
}
