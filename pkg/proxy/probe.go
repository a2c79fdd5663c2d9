// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

const (
	// DefaultProbeInterval and DefaultProbeTimeout make that a member which hangs is found out within three
	// seconds: one interval until it is asked, and two questions without an answer.
	DefaultProbeInterval = time.Second
	// DefaultProbeTimeout is how long an answer may take.
	DefaultProbeTimeout = time.Second

	// firstProbe is the longest time until a new member is asked for the first time.
	firstProbe = 50 * time.Millisecond

	// maxMissed is how many questions a member may leave unanswered, if its connection does not say more.
	maxMissed = 2
)

// startProbes has m probed until its life ends.
func (p *Proxy) startProbes(m *member) {
	if p.options.ProbeInterval > 0 {
		p.background.Go(func() { p.probe(m) })
	}
}

// probe asks m for its health until its life ends, and says so when it stops or begins to answer. gRPC's keepalive
// can't do this: by default servers close connections that ping more often than every five minutes.
func (p *Proxy) probe(m *member) {
	missed := 0
	var ageing ageing
	// The first question comes soon, because it also asks for the member's identity, and at random, lest the members of
	// a big set are all asked in one instant.
	pause := time.Duration(p.options.Rand() * float64(min(firstProbe, p.options.ProbeInterval)))
	for p.pauseProbe(m, pause) {
		began := p.options.Clock.Now()
		err := p.check(m, &ageing)
		switch {
		case err == nil:
			missed = 0
			p.recovered(m)
		case m.hasLeft():
			return
		case status.Code(err) == codes.DeadlineExceeded:
			missed++
		default:
			missed = maxMissed
		}
		if missed >= maxMissed {
			p.suspect(m, "does not answer probes: "+status.Convert(err).Message())
		}
		// A question that was not answered has taken its time already.
		pause = max(0, p.options.ProbeInterval-p.options.Clock.Since(began))
	}
}

// probeLeaver asks m, which has left, for its health until ctx is done, or until m does not answer.
func (p *Proxy) probeLeaver(ctx context.Context, m *member) {
	for missed := 0; missed < maxMissed; {
		began := p.options.Clock.Now()
		v, _ := p.health(ctx, m.calls.Load())
		switch {
		case ctx.Err() != nil:
			return
		case v.answered():
			missed = 0
		case status.Code(v.err) == codes.DeadlineExceeded:
			missed++
		default:
			return
		}
		if !p.sleep(ctx, max(0, p.options.ProbeInterval-p.options.Clock.Since(began))) {
			return
		}
	}
}

// pauseProbe waits for d, or until there is a reason to ask m at once. It is false when there is nothing left to ask.
func (p *Proxy) pauseProbe(m *member, d time.Duration) bool {
	timer := p.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-m.life.Done():
		return false
	case <-p.closed:
		return false
	case <-m.doubted:
		return true
	case <-timer.C():
		return true
	}
}

// check asks m once. Whatever a member itself answers says that it is alive, except that it is not serving: registries
// of old releases don't know the question.
func (p *Proxy) check(m *member, ageing *ageing) error {
	c := m.calls.hold()
	defer c.release()
	v, who := p.health(m.life, c)
	switch {
	case v.err == nil && v.status == grpc_health_v1.HealthCheckResponse_NOT_SERVING:
		return status.Error(codes.Unavailable, "it says that it is not serving")
	case v.answered():
		p.identify(m, who)
		if ageing.due(p.options.Clock.Now(), c, who) {
			m.age()
		}
		return nil
	default:
		return v.err
	}
}

// verdict is what a member, or what became of it, answers to a probe.
type verdict struct {
	answer
	status grpc_health_v1.HealthCheckResponse_ServingStatus
}

// answered says whether the member itself answered, whatever it was.
func (v *verdict) answered() bool { return v.err == nil || v.complete }

// health asks over c for the health of the member there, and returns who it is, too.
func (p *Proxy) health(ctx context.Context, c *conns) (verdict, credentials.AuthInfo) {
	ctx, cancel := context.WithTimeout(markOwn(ctx, "probe"), p.options.ProbeTimeout)
	defer cancel()
	var who peer.Peer
	resp := new(grpc_health_v1.HealthCheckResponse)
	a := invoke(ctx, c.list[0], grpc_health_v1.Health_Check_FullMethodName, new(grpc_health_v1.HealthCheckRequest), resp, grpc.Peer(&who))
	return verdict{answer: a, status: resp.GetStatus()}, who.AuthInfo
}
