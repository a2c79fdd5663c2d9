// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
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
	silent := make(silences)
	var ageing ageing
	// The first question comes soon, because it also asks for the member's identity, and at random, lest the members of
	// a big set are all asked in one instant.
	pause := time.Duration(p.options.Rand() * float64(min(firstProbe, p.options.ProbeInterval)))
	for p.pauseProbe(m, pause) {
		began := p.options.Clock.Now()
		err := p.check(m, silent, &ageing)
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
		v := p.health(ctx, m.calls.Load().list[0])
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

// check asks m once, over each connection in use. Whatever a member itself answers says that it is alive, except that it
// is not serving: registries of old releases don't know the question. A connection over which one that is alive does not
// answer hangs by itself, and is replaced.
func (p *Proxy) check(m *member, silent silences, ageing *ageing) error {
	calls, watches := m.calls.hold(), m.watches.hold()
	defer calls.release()
	defer watches.release()
	asked := append(calls.used(1), watches.used(0)...)
	verdicts := p.askAll(m.life, asked)
	var alive *verdict
	var silence error
	for i := range verdicts {
		v := &verdicts[i]
		switch {
		case v.err == nil && v.status == grpc_health_v1.HealthCheckResponse_NOT_SERVING:
			return status.Error(codes.Unavailable, "it says that it is not serving")
		case v.answered() && alive == nil:
			alive = v
		case status.Code(v.err) == codes.DeadlineExceeded:
			silence = v.err
		}
	}
	switch {
	case alive == nil && silence != nil:
		return silence
	case alive == nil:
		return verdicts[0].err
	}
	p.identify(m, alive.who)
	if ageing.due(p.options.Clock.Now(), calls, alive.who) {
		m.age()
	}
	for _, hung := range silent.update(asked, verdicts) {
		if calls.hang(hung) || watches.hang(hung) {
			p.options.Log.Warn("a connection to a member hangs, and is replaced", zap.String("member", m.Name))
			m.age()
		}
	}
	return nil
}

// verdict is what a member, or what became of it, answers to a probe.
type verdict struct {
	answer

	status grpc_health_v1.HealthCheckResponse_ServingStatus
	// who it is that answered.
	who credentials.AuthInfo
}

// answered says whether the member itself answered, whatever it was.
func (v *verdict) answered() bool { return v.err == nil || v.complete }

// askAll asks over all connections at the same time.
func (p *Proxy) askAll(ctx context.Context, asked []*grpc.ClientConn) []verdict {
	verdicts := make([]verdict, len(asked))
	var group sync.WaitGroup
	for i, conn := range asked[1:] {
		group.Go(func() { verdicts[i+1] = p.health(ctx, conn) })
	}
	verdicts[0] = p.health(ctx, asked[0])
	group.Wait()
	return verdicts
}

// health asks over a connection for the health of the member there.
func (p *Proxy) health(ctx context.Context, conn *grpc.ClientConn) verdict {
	ctx, cancel := context.WithTimeout(markOwn(ctx, "probe"), p.options.ProbeTimeout)
	defer cancel()
	var who peer.Peer
	resp := new(grpc_health_v1.HealthCheckResponse)
	a := invoke(ctx, conn, grpc_health_v1.Health_Check_FullMethodName, new(grpc_health_v1.HealthCheckRequest), resp, grpc.Peer(&who))
	return verdict{answer: a, status: resp.GetStatus(), who: who.AuthInfo}
}
