// SPDX-License-Identifier: Apache-2.0

// Package fleet is how tests speak with the command of that name, which runs in a pod and keeps groups of NSEs registered
// with NSM's own registry client.
package fleet

import "time"

// Order is what a group is to be.
type Order struct {
	// Count is how many NSEs the group has. They are called PREFIX-0, PREFIX-1, and so on.
	Count int `json:"count"`
	// Service is the network service that all of them offer.
	Service string `json:"service"`
	// Pulse is how long an NSE waits after a registration before it registers again by itself, beside the client's own
	// refreshes; zero: it does not.
	Pulse time.Duration `json:"pulse"`
}

// Report is what has happened to a group since it was made or last asked to forget.
type Report struct {
	// Living is how many NSEs are registered.
	Living int `json:"living"`
	// Registrations is how many attempts to register succeeded, FailedAttempts how many did not and were made again by
	// the client, and FailedCalls how many calls failed for who made them. Errors has the texts of both with their numbers.
	Registrations  int            `json:"registrations"`
	FailedAttempts int            `json:"failed_attempts"`
	FailedCalls    int            `json:"failed_calls"`
	Errors         map[string]int `json:"errors,omitempty"`
	// Moves are the changes of holders.
	Moves []Move `json:"moves,omitempty"`
	// Holders is how many NSEs each replica has.
	Holders map[string]int `json:"holders"`
	// Gaps are, for each NSE, the longest time in which it had no successful registration, the shortest of them first. The
	// time up to now counts, too.
	Gaps []time.Duration `json:"gaps"`
	// Oldest is the last registration of the NSE whose last one is the longest ago.
	Oldest time.Time `json:"oldest"`
	// Silent is how many NSEs have not been registered for the last three pulses; without pulses, none.
	Silent int `json:"silent"`
	// Slowest is the slowest attempt that succeeded.
	Slowest time.Duration `json:"slowest"`
}

// Move is an NSE's change from one holder to another. Holders are pods.
type Move struct {
	NSE  string    `json:"nse"`
	From string    `json:"from"`
	To   string    `json:"to"`
	At   time.Time `json:"at"`
}

// Gap returns which gap the given share of the NSEs has at most: of 0 the shortest, of 1 the longest.
func (r *Report) Gap(share float64) time.Duration {
	if len(r.Gaps) == 0 {
		return 0
	}
	return r.Gaps[int(share*float64(len(r.Gaps)-1))]
}
