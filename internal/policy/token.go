// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
)

// shape says what an OPA builtin makes of a token.
type shape uint8

const (
	// malformed: the builtin fails, so the expression it stands in is undefined.
	malformed shape = iota
	// plain: the builtin gives a value.
	plain
	// odd: the token uses a part of JOSE that only OPA knows (nested tokens, critical headers).
	odd
)

// token is a JWT as OPA's builtins see it. Nothing in it is verified.
type token struct {
	body      string // header.payload, the part that is signed
	signature []byte
	claims    map[string]json.RawMessage // of a plain body
	decode    shape                      // what io.jwt.decode makes of it
	verify    shape                      // what io.jwt.verify_es256 makes of it, before it looks at the key
}

// decode takes a segment's token apart, following decodeJWT and builtinJWTDecode in OPA's v1/topdown/tokens.go.
// A segment of null has no token, which is undefined as a broken one is.
func decode(segment *grpcmetadata.PathSegment) token {
	if segment == nil {
		return token{}
	}
	parts := strings.SplitN(segment.Token, ".", 4) // a fourth is one too many
	if len(parts) != 3 {
		return token{}
	}
	t := token{verify: plain}
	if parts[0] != usualHeader {
		header, err := object(parts[0])
		if err != nil {
			return token{}
		}
		if t.verify = headerShape(header); t.verify == malformed {
			return token{}
		}
		if _, nested := header["cty"]; nested {
			return token{decode: odd, verify: odd}
		}
	}
	var err error
	if t.signature, err = decodeBase64(parts[2]); err != nil {
		return token{}
	}
	t.body = segment.Token[:len(parts[0])+1+len(parts[1])]
	// verify_es256 does not look into the payload, so a broken one leaves t.verify as it is.
	if t.claims, err = object(parts[1]); err == nil {
		t.decode = plain
	}
	return t
}

// usualHeader is {"alg":"ES256","typ":"JWT"}, which NSM's tokens have (sdk, pkg/tools/spiffejwt). Knowing it by its text
// saves decoding it.
const usualHeader = "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9"

// headerShape is what io.jwt.verify_es256 makes of a header. io.jwt.decode looks at enc and cty alone.
func headerShape(header map[string]json.RawMessage) shape {
	if _, encrypted := header["enc"]; encrypted {
		return malformed
	}
	for _, name := range []string{"cty", "crit"} {
		if _, ok := header[name]; ok {
			return odd
		}
	}
	for _, name := range []string{"alg", "kid", "typ"} {
		if value, ok := header[name]; ok && !isString(value) {
			return odd
		}
	}
	return plain
}

// object decodes a part of a token that must be a JSON object. Of two members of one name the last counts, and
// names are compared as they are: a struct with tags would also take "SUB" for "sub".
func object(part string) (map[string]json.RawMessage, error) {
	text, err := decodeBase64(part)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	if members == nil {
		return nil, errors.New("null is not an object")
	}
	return members, nil
}

// decodeBase64 takes padded and unpadded text, as OPA's base64url.decode does.
func decodeBase64(text string) ([]byte, error) {
	if !strings.HasSuffix(text, "=") {
		switch len(text) % 4 {
		case 1: // also if it is line breaks, which the decoder skips, that make the length
			return nil, errors.New("no base64 text has this length")
		case 2:
			text += "=="
		case 3:
			text += "="
		}
	}
	return base64.URLEncoding.DecodeString(text)
}

// isString says whether a value that encoding/json has found to be JSON is a string.
func isString(value json.RawMessage) bool {
	return len(value) > 0 && value[0] == '"'
}
