// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// clearScreen moves the cursor of a terminal to the top, and wipes out what was there.
const clearScreen = "\x1b[H\x1b[2J"

// Options say whom to ask and how to show the answer.
type Options struct {
	Target Target
	Output Output
	// Timeout bounds each question.
	Timeout time.Duration
	// Interval is how long after an answer the question is asked again; 0: it is asked once.
	Interval time.Duration
	// Terminal says that Out understands escape sequences: a table that is shown again replaces the one before.
	Terminal bool
	// Out gets the answers, and Err what goes wrong while they are shown again and again.
	Out, Err io.Writer
}

// Show asks q and shows the answer; if there is an interval, again and again until ctx ends, which is no error. It
// returns [ErrNotReady] or [ErrNoMember], or an error that wraps it, if the one answer means no. Otherwise an error says
// in one line why nobody could be asked or nothing be shown, and what to do. Who watches is told later errors as they
// come: a registry-lb that restarts is not the end.
func Show(ctx context.Context, o Options, q Question) error {
	c := newClient(o.Target, o.Timeout)
	defer c.close()
	if o.Interval <= 0 {
		return o.once(ctx, c, q)
	}
	for first := true; ; first = false {
		text, err := o.frame(ctx, c, q)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && first {
			return err
		}
		if err := o.write(text, err); err != nil {
			return err
		}
		timer := time.NewTimer(o.Interval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// once asks, shows the answer, and returns what it means.
func (o Options) once(ctx context.Context, c *client, q Question) error {
	text, verdict, err := o.ask(ctx, c, q)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(o.Out, text); err != nil {
		return fmt.Errorf("the answer can't be shown: %w", err)
	}
	return verdict
}

// frame asks, and returns what is to be seen until the next time.
func (o Options) frame(ctx context.Context, c *client, q Question) (string, error) {
	text, verdict, err := o.ask(ctx, c, q)
	if o.Output == JSON || err != nil {
		return text, err
	}
	if errors.Is(verdict, ErrNoMember) {
		text = verdict.Error() + "\n"
	}
	return fmt.Sprintf("%s  %s at %s, every %s\n\n%s", time.Now().UTC().Format(time.RFC3339), escape(q.title), o.Target, o.Interval, text), nil
}

// write shows a frame, or what went wrong instead.
func (o Options) write(frame string, failure error) error {
	out := o.Out
	switch {
	case failure != nil:
		out, frame = o.Err, fmt.Sprintf("registry-lb: %v\n", failure)
	case o.Output == JSON:
		frame = strings.TrimRight(frame, "\n") + "\n"
	case o.Terminal:
		frame = clearScreen + frame
	default:
		frame += "\n"
	}
	if _, err := io.WriteString(out, frame); err != nil {
		return fmt.Errorf("the answer can't be shown: %w", err)
	}
	return nil
}

// ask returns the answer as it is to be shown, and what it means.
func (o Options) ask(ctx context.Context, c *client, q Question) (text string, verdict, err error) {
	a, err := c.get(ctx, q.path, q.query)
	if err != nil {
		return "", nil, err
	}
	r, ok := q.read(a, time.Now())
	switch {
	case !ok && a.code != http.StatusOK:
		return "", nil, c.refused(a)
	case !ok:
		return "", nil, c.stranger(a, "no answer")
	case o.Output == JSON:
		return string(escapeJSON(a.body)), r.verdict, nil
	default:
		return r.text, r.verdict, nil
	}
}
