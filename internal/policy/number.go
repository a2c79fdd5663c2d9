// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// before is now < value as rego compares: a number with now in seconds, and any other type by OPA's order of types,
// null < boolean < number < string < array < object (ast.Compare). So an exp that is a string never passes.
func before(now time.Time, value json.RawMessage) verdict {
	if len(value) == 0 {
		return undecided
	}
	switch value[0] {
	case 'n', 't', 'f':
		return denied
	case '"', '[', '{':
		return allowed
	}
	number := string(value)
	if seconds, err := strconv.ParseInt(number, 10, 64); err == nil {
		// The fraction of a second in now cannot make up for a whole one.
		return verdictOf(now.Unix() < seconds)
	}
	if len(number) > maxDecimal || strings.ContainsAny(number, "eE") {
		return undecided
	}
	exact, ok := new(big.Rat).SetString(number)
	if !ok {
		return undecided
	}
	return verdictOf(big.NewRat(now.UnixNano(), int64(time.Second)).Cmp(exact) < 0)
}

// maxDecimal is the longest fraction that is compared here; a time with nanoseconds needs 20 characters. Longer
// ones, and those with an exponent, are for OPA: it panics on some, and its answer then is an error.
const maxDecimal = 40
