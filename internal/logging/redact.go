// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"bytes"
	"regexp"

	"go.uber.org/zap/zapcore"
)

// redactor cuts JSON Web Tokens (RFC 7519) out of what is written. It looks at encoded lines, so that no field, nested
// object, error or message of a library gets past it; the letters of a token are the same in every encoding used here.
type redactor struct {
	zapcore.WriteSyncer
}

// jwtStart is `{"` in base64url, with which the header of each token begins.
const jwtStart = "eyJ"

// Write implements zapcore.WriteSyncer.
func (r redactor) Write(line []byte) (int, error) {
	// Nearly no line has a token in it, so the pattern is not kept.
	if !bytes.Contains(line, []byte(jwtStart)) {
		return r.WriteSyncer.Write(line)
	}
	jwt := regexp.MustCompile(jwtStart + `[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?`)
	if _, err := r.WriteSyncer.Write(jwt.ReplaceAll(line, []byte("[token]"))); err != nil {
		return 0, err
	}
	return len(line), nil
}
