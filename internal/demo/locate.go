// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/networkservicemesh/registry-lb/internal/cli"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// shownNSE is the number of the NSE whose location is shown; of fewer NSEs it is the last.
const shownNSE = 17

// showLocation asks registry-lb where the NSE is, as an operator would, and shows question and answer.
func (d *demo) showLocation(ctx context.Context, lb *balancer, nse string) error {
	target, err := cli.ParseTarget("http://" + lb.admin)
	if err != nil {
		return err
	}
	var answer strings.Builder
	options := cli.Options{Target: target, Output: cli.Table, Timeout: changeTimeout, Out: &answer, Err: &answer}
	if err := cli.Show(ctx, options, cli.Locate(shard.NSE, nse)); err != nil {
		return fmt.Errorf("locate %s: %w", nse, err)
	}
	d.report.location(fmt.Sprintf("registry-lb locate %s --admin %s", nse, target), answer.String())
	return nil
}
