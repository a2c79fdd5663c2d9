// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// status is what one pod of registry-lb says of itself.
type status struct {
	Ready    bool     `json:"ready"`
	NotReady []string `json:"not_ready"`
	Keys     int      `json:"keys"`
	Members  []struct {
		Name, State string
		Keys        int
	} `json:"members"`
}

func (s status) live() []string {
	var names []string
	for _, m := range s.Members {
		if m.State == "live" {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// ask gets a page of the admin port of a pod.
func ask(ctx context.Context, p corev1.Pod, path string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Status.PodIP+":9090"+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func statusOf(ctx context.Context, p corev1.Pod) (status, error) {
	var s status
	for _, path := range []string{"/api/v1/status", "/api/v1/members"} {
		_, text, err := ask(ctx, p, path)
		if err != nil {
			return s, err
		}
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return s, fmt.Errorf("%s: %w: %s", path, err, text)
		}
	}
	return s, nil
}

func balancers(t *testing.T) []corev1.Pod {
	t.Helper()
	return podsOf(t, namespace, "app="+release)
}

// awaitMembers waits until two registry-lb are ready and each has just the registry pods as its live members.
func awaitMembers(t *testing.T) {
	t.Helper()
	awaitMembersIn(t, namespace)
}

func awaitMembersIn(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, "registry-lb is ready with all replicas", func() error {
		want, pods := names(podsOf(t, namespace, "app=registry")), podsOf(t, namespace, "app="+release)
		if len(pods) != 2 {
			return fmt.Errorf("there are %d pods of registry-lb", len(pods))
		}
		for _, p := range pods {
			s, err := statusOf(t.Context(), p)
			if err != nil {
				return err
			}
			if !ready(p) || !s.Ready || !slices.Equal(s.live(), want) {
				return fmt.Errorf("%s: %+v instead of %v", p.Name, s, want)
			}
		}
		return nil
	})
}

// restarts are how often containers of registry-lb have ended by themselves.
func restarts(t *testing.T) int {
	t.Helper()
	sum := 0
	for _, p := range balancers(t) {
		for _, c := range p.Status.ContainerStatuses {
			sum += int(c.RestartCount)
		}
	}
	return sum
}

// log returns the log of a pod.
func logOf(t *testing.T, p corev1.Pod) string {
	t.Helper()
	return kubectl(t, "-n", p.Namespace, "logs", p.Name)
}

// requireNoErrors checks that no registry-lb has met a fault of its own.
func requireNoErrors(t *testing.T) {
	t.Helper()
	require.Zero(t, restarts(t), "registry-lb crashed")
	for _, p := range balancers(t) {
		for line := range strings.Lines(logOf(t, p)) {
			require.NotContains(t, line, "panic", p.Name)
		}
	}
}

// readyEndpoints counts the endpoints of a slice to which traffic goes.
func readyEndpoints(slice *discoveryv1.EndpointSlice) int {
	n := 0
	for _, e := range slice.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			n++
		}
	}
	return n
}
