// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"
)

// minConnsAge is the shortest time between two replacements of a member's connections for the age of its certificate.
const minConnsAge = time.Second

// Renew has the connections to all members replaced, for example because the certificate that they show was renewed. It
// does not wait. New connections are made beside the old ones and are used as soon as they stand; the old ones carry what
// is in flight on them to its end, watches as well, and are closed then. Where no new connection comes about, the old ones
// stay in use.
func (p *Proxy) Renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.roster.Load().byName {
		m.age()
	}
}

// age has the connections to m replaced.
func (m *member) age() {
	select {
	case m.aged <- struct{}{}:
	default: // that is going to happen anyway
	}
}

// startRenewals has the connections to m replaced when they have aged, until its life ends.
func (p *Proxy) startRenewals(m *member) {
	p.background.Go(func() {
		for {
			select {
			case <-m.life.Done():
				return
			case <-p.closed:
				return
			case <-m.aged:
				p.replace(m)
			}
		}
	})
}

// replace makes new connections to m and has them used.
func (p *Proxy) replace(m *member) {
	calls, watches, err := m.newConns(p.options.DialOptions)
	if err != nil {
		p.options.Log.Error("a member's connections can't be replaced", zap.String("member", m.Name), zap.Error(err))
		return // what could be made once can be made again
	}
	if !p.stands(m, calls) {
		calls.close()
		watches.close()
		return
	}
	calls.born = p.options.Clock.Now()
	p.outlive(m, m.calls.Swap(calls))
	p.outlive(m, m.watches.Swap(watches))
	select {
	case <-m.closed:
		// It may not have closed these.
		calls.close()
		watches.close()
	default:
	}
}

// stands waits until new connections to m stand. It is false if m's life ends before; and it ends if one of the old ones
// hangs while no new one comes about, because what waits there has to go elsewhere.
func (p *Proxy) stands(m *member, c *conns) bool {
	for {
		ctx, cancel := context.WithTimeout(m.life, connectTimeout)
		ready := c.ready(ctx)
		cancel()
		switch {
		case ready:
			return true
		case m.hasLeft():
			return false
		case m.calls.Load().hangs(), m.watches.Load().hangs():
			p.suspect(m, "a connection to it hangs, and no new one comes about")
		}
	}
}

// awaitReplaced has the connections to m replaced and waits for that, if it does not take too long.
func (p *Proxy) awaitReplaced(ctx context.Context, m *member, c *conns) {
	m.age()
	timer := p.options.Clock.NewTimer(connectTimeout)
	defer timer.Stop()
	select {
	case <-c.replaced:
	case <-m.life.Done():
	case <-ctx.Done():
	case <-timer.C():
	}
}

// outlive closes connections that have been replaced as soon as nothing holds them any more.
func (p *Proxy) outlive(m *member, c *conns) {
	close(c.replaced)
	c.cut()
	c.release()
	p.background.Go(func() {
		select {
		case <-c.released:
		case <-m.closed:
		}
		c.close()
	})
}

// ageing says when the connections that a member is probed on are to be replaced because the certificate that it showed on
// them grows old. NSM's tokens end with the certificate of the peer that they are for, and an NSE with the token of who
// registers it, so calls on a connection that outlives the peer's certificate would register NSEs that have expired.
type ageing struct {
	conns *conns
	at    time.Time
}

// due says whether it is time. Half of the certificate's remaining life is waited for: SPIRE renews certificates at half
// of theirs, so one replacement is enough as a rule.
func (a *ageing) due(now time.Time, c *conns, info credentials.AuthInfo) bool {
	tls, ok := tlsOf(info)
	if !ok || len(tls.State.PeerCertificates) == 0 {
		return false
	}
	if a.conns != c {
		left := tls.State.PeerCertificates[0].NotAfter.Sub(now)
		*a = ageing{conns: c, at: now.Add(max(left/2, minConnsAge))}
	}
	if now.Before(a.at) {
		return false
	}
	a.at = now.Add(minConnsAge) // in case that they are not replaced
	return true
}
