// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"net/url"
	"time"
)

// Answers that are understood and mean no.
var (
	// ErrNotReady says that registry-lb is not ready. The answer says why.
	ErrNotReady = errors.New("registry-lb is not ready")
	// ErrNoMember says that there is no member to which calls could go.
	ErrNoMember = errors.New("nobody serves it")
)

// Question is what registry-lb can be asked.
type Question struct {
	path  string
	query url.Values
	// title says in one line what the answer is about.
	title string
	read  reader
}

// reader reads an answer. It is false if the answer can't be one to the question.
type reader func(a answer, now time.Time) (reading, bool)

// reading is what people read.
type reading struct {
	// text is a table; empty: there is none.
	text string
	// verdict is [ErrNotReady] or [ErrNoMember], or wraps it, if the answer means no.
	verdict error
}

// decode reads JSON.
func decode[T any](a answer) (T, bool) {
	var value T
	err := json.Unmarshal(a.body, &value)
	return value, err == nil
}
