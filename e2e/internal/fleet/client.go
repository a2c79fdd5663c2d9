// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Port is where the command listens.
const Port = 8080

// Client speaks with one pod.
type Client struct {
	// Address is the pod's "host:port".
	Address string
}

// Register makes a group and returns when all its NSEs are registered, or some can't be.
func (c Client) Register(ctx context.Context, prefix string, order Order) (*Report, error) {
	body, err := json.Marshal(order)
	if err != nil {
		return nil, fmt.Errorf("encode an order: %w", err)
	}
	return c.report(ctx, http.MethodPut, prefix, body)
}

// Report returns what has happened to a group.
func (c Client) Report(ctx context.Context, prefix string) (*Report, error) {
	return c.report(ctx, http.MethodGet, prefix, nil)
}

// Forget has the group forget what has happened to it so far.
func (c Client) Forget(ctx context.Context, prefix string) error {
	_, err := c.report(ctx, http.MethodPost, prefix, nil)
	return err
}

// Unregister unregisters all NSEs of a group and returns its last report.
func (c Client) Unregister(ctx context.Context, prefix string) (*Report, error) {
	return c.report(ctx, http.MethodDelete, prefix, nil)
}

// Find returns the names of the NSEs that the registry gives for a query: by name, by network service, or all.
func (c Client) Find(ctx context.Context, name, service string) ([]string, error) {
	var names []string
	err := c.call(ctx, http.MethodGet, "/find?"+url.Values{"name": {name}, "service": {service}}.Encode(), nil, &names)
	return names, err
}

func (c Client) report(ctx context.Context, method, prefix string, body []byte) (*Report, error) {
	report := new(Report)
	if err := c.call(ctx, method, "/groups/"+url.PathEscape(prefix), body, report); err != nil {
		return nil, err
	}
	return report, nil
}

func (c Client) call(ctx context.Context, method, path string, body []byte, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+c.Address+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the fleet: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask the fleet: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read the fleet's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the fleet says to %s %s: %s: %s", method, path, response.Status, bytes.TrimSpace(text))
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("read the fleet's answer to %s %s: %w", method, path, err)
	}
	return nil
}
