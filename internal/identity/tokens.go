// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"sync"
	"time"

	"github.com/networkservicemesh/sdk/pkg/tools/spiffejwt"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"google.golang.org/grpc/credentials"
	"k8s.io/utils/clock"
)

const (
	// reuseShare is for how much of its lifetime a token is used again. A registry chooses the expiration of an NSE by
	// that of the token, so the last token must be nearly as good as the first.
	reuseShare = 0.1
	// maxReused bounds how many tokens are kept: there are as many audiences as members.
	maxReused = 1024
)

// Tokens returns a generator of NSM tokens: JWTs signed with the SVID's key, for the peer as audience.
func Tokens(s x509svid.Source, maxLifetime time.Duration) token.GeneratorFunc {
	return spiffejwt.TokenGeneratorFunc(s, maxLifetime)
}

// reused is a token that has been signed.
type reused struct {
	token           string
	signed, expires time.Time
	svid            *x509svid.SVID
}

// Reuse returns a generator that signs a token for an audience only when the one before has used up a tenth of its
// lifetime or the SVID has been renewed. NSM's tokens name signer, audience and expiration and nothing of the call
// (SDK package spiffejwt), and no policy asks that a token be new, so two calls may carry the same one.
func Reuse(s x509svid.Source, generate token.GeneratorFunc, c clock.PassiveClock) token.GeneratorFunc {
	var mu sync.RWMutex
	tokens := make(map[string]reused)
	return func(info credentials.AuthInfo) (string, time.Time, error) {
		peer, ok := peerOf(info)
		svid, err := s.GetX509SVID()
		if !ok || err != nil {
			return generate(info)
		}
		now := c.Now()
		mu.RLock()
		known, ok := tokens[string(peer)]
		mu.RUnlock()
		if ok && known.svid == svid && now.Sub(known.signed) < time.Duration(reuseShare*float64(known.expires.Sub(known.signed))) {
			return known.token, known.expires, nil
		}
		tok, expires, err := generate(info)
		if err != nil {
			return "", time.Time{}, err
		}
		mu.Lock()
		defer mu.Unlock()
		if len(tokens) >= maxReused {
			clear(tokens)
		}
		tokens[string(peer)] = reused{token: tok, signed: now, expires: expires, svid: svid}
		return tok, expires, nil
	}
}

// peerOf returns what a token for the peer depends on: its certificate, which names it and bounds the expiration.
func peerOf(info credentials.AuthInfo) ([]byte, bool) {
	tls, ok := info.(credentials.TLSInfo)
	if !ok || len(tls.State.PeerCertificates) == 0 {
		return nil, false
	}
	return tls.State.PeerCertificates[0].Raw, true
}
