// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"crypto"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
)

// draft is a token before it is signed. Claims are JSON text; an empty one is left out.
type draft struct {
	header        string
	sub, aud, exp string
	payload       string // in place of the claims, if set
	key           crypto.Signer
	after         func(token string) string
}

// flaw is one thing that can be wrong, or merely unusual, in a token.
type flaw struct {
	name  string
	apply func(w *world, d *draft)
}

// claims sets parts of a draft.
func header(text string) func(*world, *draft) { return func(_ *world, d *draft) { d.header = text } }
func sub(text string) func(*world, *draft)    { return func(_ *world, d *draft) { d.sub = text } }
func exp(text string) func(*world, *draft)    { return func(_ *world, d *draft) { d.exp = text } }
func payload(text string) func(*world, *draft) {
	return func(_ *world, d *draft) { d.payload = text }
}

// aud replaces the audience; ME in the text stands for what it was.
func aud(text string) func(*world, *draft) {
	return func(_ *world, d *draft) {
		d.aud = strings.ReplaceAll(text, "ME", strings.Trim(d.aud, "[]"))
	}
}

// around writes the claims into text in place of CLAIMS.
func around(text string) func(*world, *draft) {
	return func(_ *world, d *draft) { d.payload = strings.ReplaceAll(text, "CLAIMS", d.claims()) }
}

func after(f func(string) string) func(*world, *draft) {
	return func(_ *world, d *draft) { d.after = f }
}

// part replaces one of the three parts of a token by f of it.
func part(i int, f func(string) string) func(*world, *draft) {
	return after(func(token string) string {
		parts := strings.Split(token, ".")
		parts[i] = f(parts[i])
		return strings.Join(parts, ".")
	})
}

func always(text string) func(string) string { return func(string) string { return text } }

// signature changes the bytes of the signature.
func signature(f func([]byte) []byte) func(*world, *draft) {
	return part(2, func(text string) string {
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			return text
		}
		return base64.RawURLEncoding.EncodeToString(f(b))
	})
}

func (d *draft) claims() string {
	var members []string
	for _, m := range []struct{ name, value string }{{"sub", d.sub}, {"aud", d.aud}, {"exp", d.exp}} {
		if m.value != "" {
			members = append(members, fmt.Sprintf("%q:%s", m.name, m.value))
		}
	}
	return strings.Join(members, ",")
}

// flaws lists them. The first is none.
func flaws() []flaw {
	deep := strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)
	return []flaw{
		{"good", func(*world, *draft) {}},

		{"signed by a stranger", func(w *world, d *draft) { d.key = w.other.key }},
		{"signed on another curve", func(w *world, d *draft) { d.key = w.p384.key }},
		{"RS256", func(w *world, d *draft) { d.header = `{"alg":"RS256"}`; d.key = w.rsa.key }},
		{"alg none without signature", func(_ *world, d *draft) {
			d.header = `{"alg":"none"}`
			d.after = func(t string) string { return t[:strings.LastIndexByte(t, '.')+1] }
		}},
		{"alg none with a good signature", header(`{"alg":"none"}`)},
		{"alg HS256 with a good signature", header(`{"alg":"HS256"}`)},
		{"unknown alg", header(`{"alg":"none of these"}`)},
		{"signature one byte short", signature(func(b []byte) []byte { return b[:max(len(b), 1)-1] })},
		{"signature with a byte more", signature(func(b []byte) []byte { return append(b, 0) })},
		{"signature of zeros", signature(func(b []byte) []byte { return make([]byte, len(b)) })},
		{"signature with wider halves", signature(func(b []byte) []byte {
			n := len(b) / 2
			wide := append([]byte{0}, b[:n]...)
			return append(append(wide, 0), b[n:]...)
		})},
		{"payload changed after signing", part(1, func(string) string {
			return base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"spiffe://nsm.test/evil","exp":99999999999}`))
		})},

		{"aud is a string", aud(`ME`)},
		{"aud is missing", aud(``)},
		{"aud is null", aud(`null`)},
		{"aud is a number", aud(`7`)},
		{"aud is empty", aud(`[]`)},
		{"aud is somebody else", aud(`["spiffe://nsm.test/else"]`)},
		{"aud is in another case", aud(`["SPIFFE://NSM.TEST/NS/NSM/POD/NSMGR-0"]`)},
		{"aud has one right and one wrong", aud(`[ME,"spiffe://nsm.test/else"]`)},
		{"aud has the right one twice", aud(`[ME,ME]`)},
		{"aud has values of other types", aud(`[1,null,true,{},[]]`)},
		{"aud has the right one and a number", aud(`[ME,1]`)},
		{"aud is nested", aud(`[[ME]]`)},
		{"aud is an object", aud(`{"a":ME}`)},
		{"aud is an object with two results", aud(`{"a":ME,"b":1}`)},
		{"aud is an empty object", aud(`{}`)},
		{"aud is a lone surrogate", aud(`["\ud800"]`)},
		{"sub is a lone surrogate", sub(`"\ud800"`)},

		{"sub is missing", sub(``)},
		{"sub is null", sub(`null`)},
		{"sub is a number", sub(`1`)},
		{"sub is false", sub(`false`)},
		{"sub is an object", sub(`{"a":1}`)},
		{"sub is empty", sub(`""`)},
		{"sub is no SPIFFE ID", sub(`"https://nsm.test/x"`)},
		{"sub is unicode", sub(`"spiffe://nsm.test/ünïcødé"`)},
		{"sub is written with escapes", func(_ *world, d *draft) {
			d.sub = strings.Replace(d.sub, "spiffe", `\u0073p\u0069ffe`, 1)
		}},

		{"exp is past", exp(`1000000000`)},
		{"exp is missing", exp(``)},
		{"exp is zero", exp(`0`)},
		{"exp is minus zero", exp(`-0`)},
		{"exp is negative", exp(`-5`)},
		{"exp is a fraction to come", exp(`99999999999.25`)},
		{"exp is a fraction past", exp(`1000000000.999999999`)},
		{"exp is a long fraction", exp(`99999999999.` + strings.Repeat("1", 60))},
		{"exp is a long integer", exp(strings.Repeat("9", 60))},
		{"exp is a negative long integer", exp("-" + strings.Repeat("9", 60))},
		{"exp is just above int64", exp(`9223372036854775808`)},
		{"exp has an exponent", exp(`9e10`)},
		{"exp has a negative exponent", exp(`1e-400`)},
		{"exp is beyond float64", exp(`1e400`)},
		{"exp is too large for OPA", exp(`1e999999999`)},
		{"exp is a past string", exp(`"1"`)},
		{"exp is null", exp(`null`)},
		{"exp is true", exp(`true`)},
		{"exp is false", exp(`false`)},
		{"exp is an array", exp(`[]`)},
		{"exp is an object", exp(`{}`)},

		{"empty", after(always(""))},
		{"one dot", after(always("."))},
		{"two dots", after(always(".."))},
		{"a word", after(always("token"))},
		{"two parts", after(func(t string) string { return t[:strings.LastIndexByte(t, '.')] })},
		{"four parts", after(func(t string) string { return t + ".e30" })},
		{"space before", after(func(t string) string { return " " + t })},
		{"invalid UTF-8", after(func(t string) string { return t + "\xff" })},
		{"header is not base64", part(0, always("%%%"))},
		{"payload is not base64", part(1, always("%%%"))},
		{"signature is not base64", part(2, always("%%%"))},
		{"signature has the length of no base64", part(2, always("AAAAA"))},
		{"header is standard base64", part(0, always("eyJhIjoi8J+YgCJ9"))},
		{"padded", after(func(t string) string {
			parts := strings.Split(t, ".")
			for i, p := range parts {
				parts[i] = p + strings.Repeat("=", (4-len(p)%4)%4)
			}
			return strings.Join(parts, ".")
		})},
		{"padded too much", part(1, func(p string) string { return p + "====" })},
		{"four line breaks within", part(1, func(p string) string { return p[:4] + "\n\n\r\n" + p[4:] })},
		{"a line break within", part(1, func(p string) string { return p[:4] + "\n" + p[4:] })},
		{"line breaks in the signature", part(2, func(p string) string { return p + "\n\n\n\n" })},

		{"header is not JSON", header(`{`)},
		{"header is null", header(`null`)},
		{"header is an array", header(`[]`)},
		{"header is empty", header(`{}`)},
		{"header has enc", header(`{"alg":"ES256","enc":"A128GCM"}`)},
		{"header has enc null", header(`{"alg":"ES256","enc":null}`)},
		{"header has Enc", header(`{"alg":"ES256","Enc":"A128GCM"}`)},
		{"header has cty", header(`{"alg":"ES256","cty":"text"}`)},
		{"header has cty JWT", header(`{"alg":"ES256","cty":"JWT"}`)},
		{"header has cty 1", header(`{"alg":"ES256","cty":1}`)},
		{"header has enc and cty 1", header(`{"alg":"ES256","enc":1,"cty":1}`)},
		{"nested with a broken signature", func(_ *world, d *draft) {
			nest(d)
			d.after = func(t string) string { return t + "%" }
		}},
		{"nested", func(_ *world, d *draft) { nest(d) }},
		{"header has crit", header(`{"alg":"ES256","crit":["exp"]}`)},
		{"header has empty crit", header(`{"alg":"ES256","crit":[]}`)},
		{"header has crit of numbers", header(`{"alg":"ES256","crit":[1]}`)},
		{"header has crit of another type", header(`{"alg":"ES256","crit":"exp"}`)},
		{"header has kid", header(`{"alg":"ES256","kid":"a"}`)},
		{"header has a number for kid", header(`{"alg":"ES256","kid":1}`)},
		{"header has a number for alg", header(`{"alg":1}`)},
		{"header has null for typ", header(`{"alg":"ES256","typ":null}`)},
		{"header has more members", header(`{"alg":"ES256","x":{"y":[1e999999999]}}`)},
		{"header has members twice", header(`{"alg":1,"alg":"ES256"}`)},

		{"payload is not JSON", payload(`{"sub":`)},
		{"payload is nothing", payload(` `)},
		{"payload is null", payload(`null`)},
		{"payload is an array", payload(`[]`)},
		{"payload is a string", payload(`"x"`)},
		{"payload is empty", payload(`{}`)},
		{"payload is nested too deep", around(`{CLAIMS,"x":` + deep + `}`)},
		{"payload has space around", around(" \n{CLAIMS}\t ")},
		{"payload has garbage behind", around(`{CLAIMS}x`)},
		{"payload has a second value behind", around(`{CLAIMS}{}`)},
		{"payload has a bracket behind", around(`{CLAIMS}}`)},
		{"payload has a byte order mark", around("\ufeff{CLAIMS}")},
		{"payload has invalid UTF-8", around("{CLAIMS,\"x\":\"\xff\"}")},
		{"payload has members twice, the last good", around(`{"sub":1,"aud":[],"exp":0,CLAIMS}`)},
		{"payload has members twice, the last bad", around(`{CLAIMS,"sub":"x","aud":["y"],"exp":0}`)},
		{"payload has members in another case behind", around(`{CLAIMS,"SUB":"x","Aud":["y"],"eXp":0}`)},
		{"payload has escaped names", around(`{CLAIMS,"\u0065xp":1}`)},
		{"payload has more members", around(`{"iat":1e999999999,"nbf":{},CLAIMS,"":[]}`)},
		{"payload has huge numbers", around(`{"iat":-1e-999999999,CLAIMS}`)},
	}
}

// nest wraps the token in another that says it holds one, as jwt.io shows.
func nest(d *draft) {
	inner := base64.RawURLEncoding.EncodeToString([]byte(d.header)) + "." +
		base64.RawURLEncoding.EncodeToString([]byte("{"+d.claims()+"}")) + ".AAAA"
	d.payload = `"` + inner + `"`
	d.header = `{"alg":"ES256","cty":"JWT"}`
}

// token makes the i-th token of a path, with flaw f.
func (w *world) token(tb testing.TB, i int, f flaw) string {
	tb.Helper()
	d := &draft{
		header: `{"alg":"ES256","typ":"JWT"}`,
		sub:    fmt.Sprintf("%q", w.at(i).id),
		aud:    fmt.Sprintf("[%q]", w.at(i+1).id),
		exp:    fmt.Sprint(time.Now().Add(10 * time.Minute).Unix()),
		key:    w.at(i).key,
		after:  func(t string) string { return t },
	}
	f.apply(w, d)
	if d.payload == "" {
		d.payload = "{" + d.claims() + "}"
	}
	return d.after(sign(tb, d.header, d.payload, d.key))
}

// path is a path of n good segments with the last one as the own; flawed says what is wrong with some.
func (w *world) path(tb testing.TB, n int, flawed map[int]flaw) *grpcmetadata.Path {
	tb.Helper()
	good := flaws()[0]
	path := &grpcmetadata.Path{PathSegments: make([]*grpcmetadata.PathSegment, n), Index: uint32(max(n, 1) - 1)}
	for i := range n {
		f, ok := flawed[i]
		if !ok {
			f = good
		}
		path.PathSegments[i] = &grpcmetadata.PathSegment{Token: w.token(tb, i, f)}
	}
	return path
}
