// SPDX-License-Identifier: Apache-2.0

// Package demo shows in one process what registry-lb is for: real registries and real clients of the NSM SDK, first
// behind a plain Service and then behind a real registry-lb. What it prints is measured, and it fails if something that
// registry-lb promises does not hold.
//
// The SDK logs to a logger of the whole process. Whoever does not want its lines between those of the demo has to
// replace that logger before Run, as logging.Install does.
package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

const (
	// replicas is how many registries there are at first: the smallest number that makes the keys of a single one a
	// minority even after one has left.
	replicas = 4
	// defaultNSEs is large enough for each registry to get some, and small enough for a laptop: each NSE has a client
	// with two connections.
	defaultNSEs = 200
	// nsmLifetime is the lifetime of an NSE without a refresh that NSM's registries have by default.
	nsmLifetime = time.Minute
	// shortLifetime makes clients refresh every 3 s, so that a refresh of each NSE can be waited for.
	shortLifetime = 4500 * time.Millisecond
)

// Run shows the demo, which takes about ten seconds, and returns nil if all that registry-lb promises held. The error
// has one line for each promise that did not, with its figures. It needs a few free ports of the loopback interface and
// a temporary directory, and leaves nothing behind.
func Run(ctx context.Context, o Options) error {
	if o.NSEs == 0 {
		o.NSEs = defaultNSEs
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	d := &demo{Options: o, report: newReport(o.Out, o.NSEs, o.Bold), progress: newProgress(o.Out, o.Terminal)}
	r, err := d.measure(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("the demo was stopped: %w", context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	broken := check(promises(o.NSEs), r)
	if len(broken) > 0 {
		return errors.Join(broken...)
	}
	d.report.seen(r)
	return d.report.err
}

// demo is one run.
type demo struct {
	Options
	report   *report
	progress *progress
}

// results are all figures that the demo measures.
type results struct {
	nses            int
	plain, balanced life
	joined, left    step
	// leftBehind is how many NSEs some registry still had at the end, after all had been unregistered.
	leftBehind int
}

// measure goes through the story, and shows what it has measured as soon as it is there.
func (d *demo) measure(ctx context.Context) (*results, error) {
	r := &results{nses: d.NSEs}
	var err error
	d.report.opening()
	if r.plain, err = d.live(ctx, "plain Service", d.behindService); err != nil {
		return nil, fmt.Errorf("clients of a plain Service: %w", err)
	}
	front := d.behindBalancer
	if d.bypass {
		front = d.behindService
	}
	if r.balanced, err = d.live(ctx, "registry-lb", front); err != nil {
		return nil, fmt.Errorf("clients of registry-lb: %w", err)
	}
	d.report.lives(r)

	d.report.scaling()
	if err := d.scale(ctx, r); err != nil {
		return nil, fmt.Errorf("a registry joins and one leaves: %w", err)
	}
	d.report.steps(r)
	return r, nil
}
