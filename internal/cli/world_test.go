// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/internal/admin"
	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// patience is for what should come at once, on a machine that is busy.
const patience = 30 * time.Second

// view is an admin.View of what it is told.
type view struct {
	members  []admin.Member
	status   admin.Status
	notReady []string
	keys     map[shard.Key]admin.Location
}

func (v *view) Members() []admin.Member { return v.members }
func (v *view) Status() admin.Status    { return v.status }
func (v *view) NotReady() []string      { return v.notReady }
func (v *view) Locate(space shard.Space, name string) (admin.Location, bool) {
	l, ok := v.keys[shard.Key{Space: space, Name: name}]
	return l, ok
}

func newHandler(v admin.View) http.Handler {
	return admin.NewHandler(v, prometheus.NewRegistry(), "static://a:1")
}

// serve returns a target at which h answers.
func serve(t *testing.T, h http.Handler) Target {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	target, err := ParseTarget(server.URL)
	require.NoError(t, err)
	return target
}

// outcome is what came of one question.
type outcome struct {
	out, err string
	failure  error
}

func show(ctx context.Context, o Options, q Question) outcome {
	var out, errs strings.Builder
	o.Out, o.Err = &out, &errs
	if o.Timeout == 0 {
		o.Timeout = patience
	}
	failure := Show(ctx, o, q)
	return outcome{out.String(), errs.String(), failure}
}

// past is so long ago that the time that a test takes does not show.
func past(hours int) time.Time {
	return time.Now().Add(-time.Duration(hours)*time.Hour - time.Minute)
}
