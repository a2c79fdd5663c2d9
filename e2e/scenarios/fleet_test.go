// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
)

const (
	// throughFront is what all NSM clients have, throughPlain the Service to compare with.
	throughFront = "tcp://registry:5002"
	throughPlain = "tcp://registry-plain:5002"

	// slowPulse is how often NSEs are registered where many things happen one after the other: NSM's clients refresh every
	// 40 s, which would be waited for again and again.
	slowPulse = 5 * time.Second
)

// givenFleet has a client in a pod of that name.
func givenFleet(t *testing.T, namespace, name, connectTo string) fleet.Client {
	t.Helper()
	if connectTo == throughPlain {
		applyFile(t, "testdata/plain.yaml")
	}
	kubectl(t, "-n", namespace, "delete", "pod", name, "--ignore-not-found", "--wait")
	applyFile(t, "testdata/fleet.yaml", "{NAMESPACE}", namespace, "{NAME}", name, "{TARGET}", connectTo)
	kubectl(t, "-n", namespace, "wait", "--for=condition=Ready", "pod/"+name, "--timeout=2m")
	ip := strings.TrimSpace(kubectl(t, "-n", namespace, "get", "pod", name, "-o", "jsonpath={.status.podIP}"))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, kubectl(t, "-n", namespace, "logs", name, "--tail=20"))
		}
	})
	return fleet.Client{Address: net.JoinHostPort(ip, strconv.Itoa(fleet.Port))}
}

// group is some NSEs of a client.
type group struct {
	client fleet.Client
	t      *testing.T
	prefix string
	count  int
}

// register registers NSEs, all of which have to succeed.
func register(t *testing.T, c fleet.Client, prefix string, order fleet.Order) group {
	t.Helper()
	if order.Service == "" {
		order.Service = prefix
	}
	report, err := c.Register(t.Context(), prefix, order)
	require.NoError(t, err)
	require.Zero(t, report.FailedCalls, "%v", report.Errors)
	require.Equal(t, order.Count, report.Living)
	return group{client: c, t: t, prefix: prefix, count: order.Count}
}

func (g group) report() *fleet.Report {
	g.t.Helper()
	report, err := g.client.Report(g.t.Context(), g.prefix)
	require.NoError(g.t, err)
	return report
}

func (g group) forget() {
	g.t.Helper()
	require.NoError(g.t, g.client.Forget(g.t.Context(), g.prefix))
}

func (g group) unregister() *fleet.Report {
	g.t.Helper()
	report, err := g.client.Unregister(g.t.Context(), g.prefix)
	require.NoError(g.t, err)
	return report
}

// awaitRefresh waits until each NSE has been registered again from now on.
func (g group) awaitRefresh() {
	g.t.Helper()
	g.awaitEach(time.Now())
}

// awaitEach waits until each NSE has been registered again since then. NSM's clients do that when two thirds of a minute
// have passed.
func (g group) awaitEach(since time.Time) {
	g.t.Helper()
	eventually(g.t, "registrations of all NSEs of "+g.prefix, func() error {
		report := g.report()
		if report.Living != g.count || !report.Oldest.After(since) {
			return fmt.Errorf("%d NSEs live, and one has not been registered since %s: %v", report.Living, report.Oldest, report.Errors)
		}
		return nil
	})
}

// find returns how many NSEs of the group the registry gives to who asks for its network service.
func (g group) find() int {
	g.t.Helper()
	names, err := g.client.Find(g.t.Context(), "", g.prefix)
	require.NoError(g.t, err)
	return len(names)
}
