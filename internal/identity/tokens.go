// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"time"

	"github.com/networkservicemesh/sdk/pkg/tools/spiffejwt"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"google.golang.org/grpc/credentials"
	"k8s.io/utils/clock"
)

// reuseShare is for how much of its lifetime a token is used again. A registry chooses the expiration of an NSE by that
// of the token, so the last token must be nearly as good as the first.
const reuseShare = 0.1

// Tokens returns a generator of NSM tokens: JWTs for the peer as audience, that end with the earlier of the two
// certificates at the latest. On a bound connection (see [Bind]) they are signed with the key of the SVID that the peer
// was shown, on others with that of the current one.
//
// A connection of a client may outlive its SVID. Then nothing can be right for who checks both the signature and the
// time, and the current SVID is at least right for who checks the time alone.
func Tokens(s x509svid.Source, maxLifetime time.Duration, c clock.PassiveClock) token.GeneratorFunc {
	current := spiffejwt.TokenGeneratorFunc(s, maxLifetime)
	return func(info credentials.AuthInfo) (string, time.Time, error) {
		bound, ok := info.(*AuthInfo)
		switch {
		case !ok:
			return current(info)
		case !c.Now().Before(bound.SVID.Certificates[0].NotAfter):
			return current(bound.TLSInfo)
		default:
			return spiffejwt.TokenGeneratorFunc(bound.SVID, maxLifetime)(bound.TLSInfo)
		}
	}
}

// signed is a token.
type signed struct {
	token         string
	from, expires time.Time
}

// fresh says whether the token has not used up its share yet.
func (s *signed) fresh(now time.Time) bool {
	return now.Sub(s.from) < time.Duration(reuseShare*float64(s.expires.Sub(s.from)))
}

// Reuse returns a generator that signs a token for a bound connection only when the one before has used up a tenth of its
// lifetime. NSM's tokens name signer, audience and expiration and nothing of the call (SDK package spiffejwt), and no
// policy asks that a token be new, so two calls may carry the same one. Both ends of the connection, hence signer and
// audience, are what they are for as long as it lives.
//
// Calls share no lock; two at once may both sign.
func Reuse(generate token.GeneratorFunc, c clock.PassiveClock) token.GeneratorFunc {
	return func(info credentials.AuthInfo) (string, time.Time, error) {
		bound, ok := info.(*AuthInfo)
		if !ok {
			return generate(info)
		}
		now := c.Now()
		if last := bound.last.Load(); last != nil && last.fresh(now) {
			return last.token, last.expires, nil
		}
		tok, expires, err := generate(info)
		if err != nil {
			return "", time.Time{}, err
		}
		bound.last.Store(&signed{token: tok, from: now, expires: expires})
		return tok, expires, nil
	}
}
