// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"strings"

	"github.com/networkservicemesh/sdk/pkg/tools/opa"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
)

// Checker holds the policies of one side of one chain. It is immutable and safe for concurrent use; calls share no
// lock and leave nothing behind.
type Checker struct {
	policies []checked
	clock    clock.PassiveClock
}

// checked is one policy with the Go rule for it, if there is one.
type checked struct {
	opa  *opa.AuthorizationPolicy
	rule rule
}

// New reads the policies that masks select, once: a file changed later is not noticed. An empty list means no check.
//
// Masks are those of registry-k8s, resolved by the same function of the SDK (opa.PoliciesByFileMask). A mask is the
// path of a file, or a regular expression for whole paths below the folder that it names. A leading etc/nsm/opa stands
// for the policies that NSM ships; the SDK replaces it by "policies", looks there in the working directory first, and
// so never reads /etc/nsm/opa. The order of masks, and of names within one, is the order of checks.
//
// Unlike registry-k8s, New fails for a mask that selects nothing (there it means no check) and for a policy that
// does not compile (there every call fails).
//
// The clock is for the Go rules. OPA reads the system's.
func New(masks []string, clk clock.PassiveClock) (*Checker, error) {
	c := &Checker{clock: clk}
	for _, mask := range masks {
		policies, err := opa.PoliciesByFileMask(mask)
		if err != nil {
			return nil, fmt.Errorf("policy mask %q: %w", mask, err)
		}
		if len(policies) == 0 {
			return nil, fmt.Errorf("policy mask %q selects no file: correct it, or leave the list empty for no check", mask)
		}
		for _, p := range policies {
			if err := compile(p); err != nil {
				return nil, fmt.Errorf("policy %q: %w", p.Name(), err)
			}
			c.policies = append(c.policies, checked{opa: p, rule: ruleFor(p)})
		}
	}
	return c, nil
}

// compile has the SDK compile p, which it does at the first check. That check's context has already ended, so the
// policy is cut short and can fetch nothing. Errors from running it have a gRPC status, those of compiling have none.
func compile(p *opa.AuthorizationPolicy) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := p.Check(ctx, nil)
	if _, ran := status.FromError(err); ran {
		return nil
	}
	return err
}

// Names lists the policies in the order of checks, and says of each whether it is decided in Go or by OPA. It is meant
// for the log at start.
func (c *Checker) Names() []string {
	names := make([]string, 0, len(c.policies))
	for _, p := range c.policies {
		by := "OPA"
		if p.rule != nil {
			by = "Go"
		}
		names = append(names, p.opa.Name()+" ("+by+")")
	}
	return names
}

// Check says whether a call may go on: nil, or the error to return to the caller. What one of the policies refuses is
// a *RefusedError. A path that NSM's own chain would not let come this far gives an error without a status, as there.
//
// The answer is the one that NSM's authorize element gives if its map has the entry PathIDs under Name and any
// others, provided that custom policies look up no other. ctx ends the work of OPA; the Go rules do not look at it.
func (c *Checker) Check(ctx context.Context, in Input) error {
	if len(c.policies) == 0 {
		return nil
	}
	call, err := newCall(&in)
	if err != nil {
		return err
	}
	now := c.clock.Now()
	for _, p := range c.policies {
		v := undecided
		if p.rule != nil {
			v = p.rule(call, now)
		}
		switch v {
		case allowed:
			continue
		case denied:
			err = status.Error(codes.PermissionDenied, "no sufficient privileges") // the SDK's words
		case undecided:
			err = call.ask(ctx, p.opa)
		}
		if err != nil {
			return &RefusedError{Policy: p.opa.Name(), err: err}
		}
	}
	return nil
}

// ask has OPA decide. Some of OPA's builtins panic on tokens that anybody can send ("cty": 1 in the header, an exp of
// 1e999999999); that must refuse the one call, not end the process.
func (c *call) ask(ctx context.Context, p *opa.AuthorizationPolicy) (err error) {
	defer func() {
		if recover() != nil {
			err = status.Error(codes.Internal, "the policy cannot be evaluated on this input")
		}
	}()
	return c.redact(p.Check(c.opaContext(ctx), c.opaInput()))
}

// minToken is less than the length of the signature alone, and more than that of words in an error.
const minToken = 40

// redact replaces an error that repeats a token: a custom policy may have put one into a URL that it fetches, for
// instance, and that URL into its error.
func (c *call) redact(err error) error {
	if err == nil {
		return nil
	}
	message := err.Error()
	for _, segment := range c.segments {
		if segment != nil && len(segment.Token) >= minToken && strings.Contains(message, segment.Token) {
			return status.Error(status.Code(err), "the policy failed with an error that repeats a token")
		}
	}
	return err
}
