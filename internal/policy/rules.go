// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/json"
	"math/big"
	"time"
)

// verdict is what a rule says about a call. OPA's undefined and false are one: both refuse.
type verdict uint8

const (
	// undecided: the input is outside what the rule covers, and OPA must be asked.
	undecided verdict = iota
	denied
	allowed
)

// rule answers as the rego text that its comment names, or leaves the answer to OPA. It must not panic.
type rule func(c *call, now time.Time) verdict

// verdictOf is the verdict for a rule body that holds or does not.
func verdictOf(holds bool) verdict {
	if holds {
		return allowed
	}
	return denied
}

// tokensValid is common/tokens_valid.rego: io.jwt.decode works on every token.
func tokensValid(c *call, _ time.Time) verdict {
	if c.segments == nil {
		return denied // count(null) is undefined
	}
	return forEach(c.decoded(), func(*token) verdict { return allowed })
}

// tokensExpired is common/tokens_expired.rego: now < exp in every token.
func tokensExpired(c *call, now time.Time) verdict {
	if c.segments == nil {
		return denied
	}
	return forEach(c.decoded(), func(t *token) verdict {
		exp, ok := t.claims["exp"]
		if !ok {
			return denied
		}
		return before(now, exp)
	})
}

// forEach asks check about every token. A token that cannot be decoded is denied. All are looked at before
// one denies, because an error that OPA meets at a later one outranks the denial.
func forEach(tokens []token, check func(*token) verdict) verdict {
	result := allowed
	for i := range tokens {
		t := &tokens[i]
		v := denied
		switch t.decode {
		case odd:
			v = undecided
		case plain:
			v = check(t)
		case malformed:
		}
		if v == undecided {
			return undecided
		}
		result = min(result, v)
	}
	return result
}

// tokensChained is common/tokens_chained.rego: each token's aud is the sub of the next one.
func tokensChained(c *call, _ time.Time) verdict {
	if c.segments == nil {
		return denied
	}
	if len(c.segments) < 2 {
		return allowed
	}
	tokens := c.decoded()
	result := allowed
	for i := range len(tokens) - 1 {
		v := pair(&tokens[i], &tokens[i+1])
		if v == undecided {
			return undecided
		}
		result = min(result, v)
	}
	return result
}

// pair is pair_valid of tokens_chained.rego. An aud of which only some values are the sub gives the function two
// results; that is an error in OPA, which OPA shall word itself.
func pair(first, second *token) verdict {
	if first.decode == odd || second.decode == odd {
		return undecided
	}
	if first.decode == malformed || second.decode == malformed {
		return denied
	}
	audience, ok := elements(first.claims["aud"])
	if !ok {
		return undecided
	}
	sub, ok := second.claims["sub"]
	if !ok || len(audience) == 0 {
		return denied
	}
	want, ok := text(sub)
	if !ok {
		return undecided
	}
	matches := 0
	for _, value := range audience {
		// A value of another type is never equal to a string.
		if got, ok := text(value); ok && got == want {
			matches++
		}
	}
	switch matches {
	case 0:
		return denied
	case len(audience):
		return allowed
	default:
		return undecided
	}
}

// elements gives what value[_] goes over in rego: nothing in the case of a scalar or of no value at all. Objects,
// which it goes over too, are left to OPA.
func elements(value json.RawMessage) (values []json.RawMessage, ok bool) {
	if len(value) == 0 {
		return nil, true
	}
	switch value[0] {
	case '[':
		if err := json.Unmarshal(value, &values); err != nil {
			return nil, false
		}
		return values, true
	case '{':
		return nil, false
	default:
		return nil, true
	}
}

// text gives the string that value is, if it is one.
func text(value json.RawMessage) (string, bool) {
	if !isString(value) {
		return "", false
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return "", false
	}
	return s, true
}

// maxIndex is where float64, through which the SDK passes the index, begins to be written with an exponent.
const maxIndex = 100_000

// prevTokenSigned is server/prev_token_signed.rego: the TLS peer signed the token before the own one.
func prevTokenSigned(c *call, _ time.Time) verdict {
	return signed(c, int64(c.index)-1)
}

// nextTokenSigned is client/next_token_signed.rego: the TLS peer signed the token after the own one.
func nextTokenSigned(c *call, _ time.Time) verdict {
	return signed(c, int64(c.index)+1)
}

// signed says whether the peer's key signed the token at index, following builtinJWTVerifyES256 in OPA's
// v1/topdown/tokens.go. As there the header's alg is not looked at: only ECDSA over SHA-256 is tried.
func signed(c *call, index int64) verdict {
	if index > maxIndex {
		return undecided
	}
	if index < 0 || index >= int64(len(c.segments)) || c.cert == nil || len(c.cert.Raw) == 0 {
		return denied
	}
	t := &c.decoded()[index]
	switch t.verify {
	case malformed:
		return denied
	case odd:
		return undecided
	case plain:
	}
	key, ok := c.cert.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return denied
	}
	half := len(t.signature) / 2
	r := new(big.Int).SetBytes(t.signature[:half])
	s := new(big.Int).SetBytes(t.signature[half:])
	digest := sha256.Sum256([]byte(t.body))
	return verdictOf(ecdsa.Verify(key, digest[:], r, s))
}

// clientAllowed is registry/client_allowed.rego: the name is new, or belongs to the SPIFFE ID of the first token.
// It is the only rule that reads the identity map, and it reads the entry of the name alone.
func clientAllowed(c *call, _ time.Time) verdict {
	if c.pathIDs == nil {
		return allowed
	}
	return verdictOf(len(c.pathIDs) > 0 && c.pathIDs[0] == c.id)
}
