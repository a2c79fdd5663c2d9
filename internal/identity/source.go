// SPDX-License-Identifier: Apache-2.0

// Package identity is who registry-lb is and whom it talks to: SVIDs and bundles of the SPIFFE Workload API, the TLS
// configurations made of them, and NSM's tokens.
package identity

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// retryDelay is how long the Workload API is left alone when it does not answer. It is a socket of the same machine, so
// asking often is cheap, and the time until it is back is time in which registry-lb is not ready.
const retryDelay = time.Second

// Source is this process' own SVID and the bundles it trusts, as the Workload API gives them and renews them. It can be
// used before there are any: what needs them then fails, and says that they are missing. Safe for concurrent use. It
// implements x509svid.Source and x509bundle.Source.
type Source struct {
	addr    string
	log     *zap.Logger
	current atomic.Pointer[workloadapi.X509Context]
	// given is closed when there is a first SVID.
	given chan struct{}
	// renewed holds a value when there is another SVID than the one before.
	renewed chan struct{}
	// trouble is why the Workload API did not answer last time; nil if it did.
	trouble atomic.Pointer[error]
}

// NewSource returns a source that asks the Workload API at addr, which is a URL such as unix:///run/spire/agent.sock.
func NewSource(addr string, log *zap.Logger) (*Source, error) {
	if addr == "" {
		return nil, fmt.Errorf("NSM_TLS=spiffe: the address of the Workload API is not known: set %s, for example to unix:///run/spire/sockets/agent.sock",
			workloadapi.SocketEnv)
	}
	if err := workloadapi.ValidateAddress(addr); err != nil {
		return nil, fmt.Errorf("NSM_TLS=spiffe: %s=%q: %w", workloadapi.SocketEnv, addr, err)
	}
	return &Source{addr: addr, log: log, given: make(chan struct{}), renewed: make(chan struct{}, 1)}, nil
}

// Run gets the SVID and the bundles, waiting for a Workload API that is not there yet, and keeps them up to date until
// ctx is done. If the Workload API goes away later, what there is stays in use until it expires. It fails only if the
// Workload API refuses the request itself before it has ever given an SVID.
func (s *Source) Run(ctx context.Context) error {
	client, err := workloadapi.New(ctx,
		workloadapi.WithAddr(s.addr),
		workloadapi.WithBackoffStrategy(steady{}),
		// By itself gRPC would come to try only every two minutes.
		workloadapi.WithDialOptions(grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: retryDelay / 2, Multiplier: 1, MaxDelay: retryDelay},
			MinConnectTimeout: retryDelay,
		})),
	)
	if err != nil {
		return fmt.Errorf("connect to the Workload API at %s: %w", s.addr, err)
	}
	defer func() { _ = client.Close() }() // nothing is left to lose
	for {
		// It tries again by itself after most errors, but not if the server ends the stream with Canceled.
		err := client.WatchX509Context(ctx, watcher{Source: s, ctx: ctx})
		if ctx.Err() != nil {
			return nil
		}
		if s.current.Load() == nil && status.Code(err) == codes.InvalidArgument {
			return fmt.Errorf("read the SVID from the Workload API at %s: %w", s.addr, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryDelay):
		}
	}
}

// Given is closed when there is a first SVID. Who connects before can only fail.
func (s *Source) Given() <-chan struct{} { return s.given }

// Renewed gets a value when the SVID was replaced by another one; several replacements may give one value. It is for one
// reader.
func (s *Source) Renewed() <-chan struct{} { return s.renewed }

var errNoSVID = errors.New("there is no SVID yet")

// Err is why calls can't be secured; nil if they can be.
func (s *Source) Err() error {
	svid, err := s.GetX509SVID()
	if err == nil {
		if end := svid.Certificates[0].NotAfter; time.Now().After(end) {
			err = fmt.Errorf("the SVID expired at %s and there is no new one", end.UTC().Format(time.RFC3339))
		}
	}
	if err == nil {
		return nil
	}
	if trouble := s.trouble.Load(); trouble != nil {
		return fmt.Errorf("no certificate from the Workload API at %s: %w: %w", s.addr, err, *trouble)
	}
	return fmt.Errorf("no certificate from the Workload API at %s: %w", s.addr, err)
}

// GetX509SVID implements x509svid.Source. It returns the same one until the Workload API gives another.
func (s *Source) GetX509SVID() (*x509svid.SVID, error) {
	current := s.current.Load()
	if current == nil {
		return nil, errNoSVID
	}
	return current.DefaultSVID(), nil
}

// GetX509BundleForTrustDomain implements x509bundle.Source.
func (s *Source) GetX509BundleForTrustDomain(domain spiffeid.TrustDomain) (*x509bundle.Bundle, error) {
	current := s.current.Load()
	if current == nil {
		return nil, errNoSVID
	}
	return current.Bundles.GetX509BundleForTrustDomain(domain)
}

// watcher takes in what the Workload API says. Its methods are not called concurrently.
type watcher struct {
	*Source
	ctx context.Context //nolint:containedctx // it is that of Run, which the watcher is a part of
}

// OnX509ContextUpdate implements workloadapi.X509ContextWatcher.
func (w watcher) OnX509ContextUpdate(current *workloadapi.X509Context) {
	svid := current.DefaultSVID()
	before := w.current.Swap(current)
	w.trouble.Store(nil)
	switch {
	case before == nil:
		close(w.given)
	case !before.DefaultSVID().Certificates[0].Equal(svid.Certificates[0]):
		select {
		case w.renewed <- struct{}{}:
		default: // the one before has not been noticed yet
		}
	}
	w.log.Info("got an SVID", zap.Stringer("spiffe_id", svid.ID), zap.Time("not_after", svid.Certificates[0].NotAfter))
}

// OnX509ContextWatchError implements workloadapi.X509ContextWatcher. It writes one line for each time that the Workload
// API is away, not for each attempt.
func (w watcher) OnX509ContextWatchError(err error) {
	if w.ctx.Err() != nil {
		return // it was us who ended the stream
	}
	if before := w.trouble.Swap(&err); before != nil {
		return
	}
	line := "the Workload API does not answer: what there is stays in use until it expires"
	if w.current.Load() == nil {
		line = "the Workload API does not answer yet: waiting for an SVID"
	}
	w.log.Warn(line, zap.String("address", w.addr), zap.Error(err))
}

// steady is a workloadapi.BackoffStrategy that always waits for the same time.
type steady struct{}

// NewBackoff implements workloadapi.BackoffStrategy.
func (steady) NewBackoff() workloadapi.Backoff { return steady{} }

// Next implements workloadapi.Backoff.
func (steady) Next() time.Duration { return retryDelay }

// Reset implements workloadapi.Backoff.
func (steady) Reset() {}
