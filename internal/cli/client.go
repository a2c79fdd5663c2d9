// SPDX-License-Identifier: Apache-2.0

// Package cli asks a registry-lb that runs, through its admin API, and shows the answers to people and scripts.
//
// What it shows comes from the network: nothing of it reaches a terminal unescaped.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

const (
	// maxAnswer bounds what is read of an answer. That about the largest number of members takes some 2 MiB.
	maxAnswer = 16 << 20
	// maxHeader bounds what is read of its header.
	maxHeader = 64 << 10
)

// client asks one registry-lb.
type client struct {
	target  Target
	timeout time.Duration
	http    *http.Client
}

func newClient(target Target, timeout time.Duration) *client {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: maxHeader}
	if target.socket != "" {
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", target.socket)
		}
	}
	return &client{target, timeout, &http.Client{
		Transport: transport,
		// The admin API does not send anybody elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// answer is what was answered: JSON of some kind.
type answer struct {
	code int
	body []byte
}

// get asks for a path of the API. The error says in one line what is wrong and what to do.
func (c *client) get(ctx context.Context, path string, query url.Values) (answer, error) {
	asked, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	u := c.target.url.JoinPath(path)
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(asked, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return answer{}, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, c.explain(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, c.explain(ctx, err)
	case len(body) > maxAnswer:
		return answer{}, fmt.Errorf("%s answers with more than %d MiB: that is not registry-lb; name its admin address with --admin", c.target, maxAnswer>>20)
	}
	a := answer{response.StatusCode, body}
	if !json.Valid(body) {
		return answer{}, c.stranger(a, "no JSON")
	}
	return a, nil
}

// stranger says that who answered does not seem to be the admin API.
func (c *client) stranger(a answer, what string) error {
	if a.code == http.StatusOK {
		return fmt.Errorf("%s answers, but that is %s of registry-lb's; name its admin address with --admin", c.target, what)
	}
	return fmt.Errorf("%s answers %s, and that is %s of registry-lb's: %s; name its admin address with --admin",
		c.target, status(a.code), what, oneLine(beginning(a.body)))
}

// refused says that the admin API answers with an error.
func (c *client) refused(a answer) error {
	text, ok := refusal(a)
	if !ok {
		return c.stranger(a, "no answer")
	}
	if a.code == http.StatusNotFound {
		return fmt.Errorf("%s does not know what was asked: %s; is it of the same version?", c.target, oneLine(text))
	}
	return fmt.Errorf("%s answers %s: %s", c.target, status(a.code), oneLine(text))
}

// refusal returns the text of an error of the API.
func refusal(a answer) (string, bool) {
	var e struct {
		Error string `json:"error"`
	}
	err := json.Unmarshal(a.body, &e)
	return e.Error, err == nil && e.Error != ""
}

// explain says why there is no answer.
func (c *client) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("stopped before %s answered: %w", c.target, context.Cause(ctx))
	}
	// The error of package url repeats the whole query.
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err
	}
	var netErr net.Error
	var dnsErr *net.DNSError
	switch {
	case errors.As(err, &dnsErr) && dnsErr.IsNotFound:
		return fmt.Errorf("nobody knows the host %s: name the admin address of registry-lb with --admin", oneLine(dnsErr.Name))
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return fmt.Errorf("%s does not answer within %s: look at its log, or give it more time with --timeout", c.target, c.timeout)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("nobody listens at %s: start registry-lb there, or name its admin address with --admin", c.target)
	}
	return fmt.Errorf("%s can't be asked: %s; --admin is the address in NSM_ADMIN_LISTEN_ON, not the one for clients",
		c.target, oneLine(err.Error()))
}

// status is an HTTP status as it is shown to people.
func status(code int) string {
	if text := http.StatusText(code); text != "" {
		return fmt.Sprintf("%d %s", code, text)
	}
	return fmt.Sprint(code)
}

// beginning returns as much of body as may be of interest.
func beginning(body []byte) string { return string(body[:min(len(body), 4*maxLine)]) }
