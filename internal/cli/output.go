// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Output is how answers are shown.
type Output string

const (
	// Table is for people.
	Table Output = "table"
	// JSON is the answer of the API as it is.
	JSON Output = "json"
)

// Outputs are the ways there are.
func Outputs() []string { return []string{string(Table), string(JSON)} }

// String implements pflag.Value.
func (o *Output) String() string { return string(*o) }

// Type implements pflag.Value.
func (*Output) Type() string { return strings.Join(Outputs(), "|") }

// Set implements pflag.Value.
func (o *Output) Set(text string) error {
	if !slices.Contains(Outputs(), text) {
		return fmt.Errorf("it is one of %s", strings.Join(Outputs(), ", "))
	}
	*o = Output(text)
	return nil
}
