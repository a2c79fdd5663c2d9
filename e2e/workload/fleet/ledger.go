// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
)

const (
	// maxErrors is how many different texts of errors are kept.
	maxErrors = 20
	// otherErrors stands for all that come later.
	otherErrors = "others"
)

// life is what is known of an NSE.
type life struct {
	holder string
	// last is when it was last registered, and gap the longest time between two registrations.
	last time.Time
	gap  time.Duration
	// since is where the present gap began; it differs from last if the group was told to forget meanwhile.
	since time.Time
}

// ledger notes what happens to the NSEs of a group. It is safe for concurrent use.
type ledger struct {
	mu    sync.Mutex
	lives map[string]*life
	sum   fleet.Report
	pulse time.Duration
}

func newLedger(pulse time.Duration) *ledger {
	return &ledger{pulse: pulse, lives: make(map[string]*life), sum: fleet.Report{Errors: make(map[string]int)}}
}

func (l *ledger) registered(name, holder string, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.sum.Registrations++
	l.sum.Slowest = max(l.sum.Slowest, took)
	known, ok := l.lives[name]
	if !ok {
		l.lives[name] = &life{holder: holder, last: now, since: now}
		return
	}
	known.gap = max(known.gap, now.Sub(known.since))
	known.last, known.since = now, now
	if known.holder != holder {
		l.sum.Moves = append(l.sum.Moves, fleet.Move{NSE: name, From: known.holder, To: holder, At: now})
		known.holder = holder
	}
}

func (l *ledger) unregistered(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.lives, name)
}

// failed notes an attempt, unless it was given up by who made it.
func (l *ledger) failed(ctx context.Context, method string, err error) {
	if ctx.Err() == context.Canceled {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum.FailedAttempts++
	l.note(method + ": " + err.Error())
}

// called notes how a call ended for who made it.
func (l *ledger) called(method string, err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum.FailedCalls++
	l.note(method + " gave up: " + err.Error())
}

func (l *ledger) note(text string) {
	if _, ok := l.sum.Errors[text]; !ok && len(l.sum.Errors) >= maxErrors {
		text = otherErrors
	}
	l.sum.Errors[text]++
}

// forget begins anew; the NSEs stay what they are.
func (l *ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum = fleet.Report{Errors: make(map[string]int)}
	now := time.Now()
	for _, known := range l.lives {
		// A gap that began before is none of those that count from now on.
		known.gap, known.since = 0, now
	}
}

func (l *ledger) report() fleet.Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	report := l.sum
	report.Errors, report.Moves = maps.Clone(l.sum.Errors), slices.Clone(l.sum.Moves)
	report.Living, report.Holders = len(l.lives), make(map[string]int)
	now := time.Now()
	for _, known := range l.lives {
		report.Holders[known.holder]++
		report.Gaps = append(report.Gaps, max(known.gap, now.Sub(known.since)))
		if report.Oldest.IsZero() || known.last.Before(report.Oldest) {
			report.Oldest = known.last
		}
		if l.pulse > 0 && now.Sub(known.last) > 3*l.pulse {
			report.Silent++
		}
	}
	slices.Sort(report.Gaps)
	return report
}
