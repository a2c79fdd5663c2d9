// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"

	"github.com/networkservicemesh/sdk/pkg/tools/opa"
)

// ruleFor gives the Go rule that answers as p does, or nil if OPA has to.
//
// A policy is known by the SHA-256 of its text alone, since neither its file name nor its folder changes what it
// says. A release of the SDK with other texts is thereby answered by OPA until the rules here were compared with
// them; a test tells when that is due.
func ruleFor(p *opa.AuthorizationPolicy) rule {
	digest := sha256.Sum256([]byte(sourceOf(p)))
	switch hex.EncodeToString(digest[:]) {
	case "f032881be18a94f77aa296551b21991ae37554d8041db46c8636cefd42a2cba1":
		return tokensChained
	case "056c013fd8a49be29fb83bb02b501787595e2a1f1ab0cc41ca7fd8d2a5285465":
		return tokensExpired
	case "f2579bf7a7b94ddd73c4f591eac29ad40a928973be0ba8025e0c72c1cb00f58f":
		return tokensValid
	case "166f1cf43d746267064f2eb191b9bdcaf9aff8904db4159a529820fd71badd63":
		return clientAllowed
	case "2a85769b8df761f9179e99fac0fad285073515336ceb124bacb19e7f90f72680":
		return prevTokenSigned
	case "5a8f3514a80afe3ee699df6e65a4a4a330cf232b16853fd2aa46b3c3ae574cbe":
		return nextTokenSigned
	}
	return nil
}

// sourceOf gives the text that p evaluates, or "" if this SDK keeps it elsewhere.
//
// The SDK has no accessor for it, nor for its embedded files. Reading the file a second time would compare a text that
// may not be the one in use; the field is what the SDK compiles.
func sourceOf(p *opa.AuthorizationPolicy) string {
	field := reflect.ValueOf(p).Elem().FieldByName("policySource")
	if !field.IsValid() || field.Kind() != reflect.String {
		return ""
	}
	return field.String()
}
