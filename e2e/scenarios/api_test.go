// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	nsmv1 "github.com/networkservicemesh/sdk-k8s/pkg/tools/k8s/apis/networkservicemesh.io/v1"
)

// requests is how many requests about NSEs the API server has had, by verb.
type requests map[string]int

func requestsNow(t *testing.T) requests {
	t.Helper()
	text, err := tools.kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(context.WithoutCancel(t.Context()))
	require.NoError(t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	require.NoError(t, err)
	counts := make(requests)
	for _, m := range families["apiserver_request_total"].GetMetric() {
		labels := make(map[string]string)
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["resource"] == "networkserviceendpoints" {
			counts[labels["verb"]] += int(m.GetCounter().GetValue())
		}
	}
	return counts
}

// since describes what has come since then.
func (r requests) since(before requests) string {
	var parts []string
	for _, verb := range slices.Sorted(maps.Keys(r)) {
		if n := r[verb] - before[verb]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", verb, n))
		}
	}
	return strings.Join(parts, ", ")
}

// logRequests writes at the end of the test what it has cost the API server, which counts anew after a restart.
func logRequests(t *testing.T) {
	t.Helper()
	before := requestsNow(t)
	t.Cleanup(func() {
		t.Logf("requests about NSEs at the API server in the whole test: %s", requestsNow(t).since(before))
	})
}

// watchDeletions notes the names of NSEs that vanish from the API server until the test ends. It may be asked at any
// time, and forgets nothing.
func watchDeletions(t *testing.T) (deleted func() []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var (
		mu    sync.Mutex
		names []string
		done  = make(chan struct{})
	)
	known := make(map[string]bool)
	for _, name := range stored(t) {
		known[name] = true
	}
	gone := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		names = append(names, name)
		delete(known, name)
	}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			followNSEs(ctx, known, gone)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(names)
	}
}

// followNSEs lists and watches until the watch ends. What was known and is not in the list has vanished.
func followNSEs(ctx context.Context, known map[string]bool, gone func(string)) {
	client := tools.nsm.NetworkservicemeshV1().NetworkServiceEndpoints(namespace)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	listed := make(map[string]bool)
	for i := range list.Items {
		listed[list.Items[i].Name] = true
	}
	for name := range maps.Clone(known) {
		if !listed[name] {
			gone(name)
		}
	}
	maps.Copy(known, listed)
	w, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		nse, ok := event.Object.(*nsmv1.NetworkServiceEndpoint)
		switch {
		case !ok:
			return
		case event.Type == watch.Deleted:
			gone(nse.Name)
		default:
			known[nse.Name] = true
		}
	}
}
