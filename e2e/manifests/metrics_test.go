// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

// recorder is a registerer that notes the names of what is registered, with or without values so far.
type recorder struct {
	prometheus.Registerer
	names map[string]bool
}

func (r recorder) Register(collector prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		collector.Describe(descs)
	}()
	for desc := range descs {
		r.names[regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(desc.String())[1]] = true
	}
	return nil
}

// exported returns the names of all metrics that the binary exports about its own work.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	r := recorder{prometheus.NewRegistry(), make(map[string]bool)}
	_, err := proxy.New(proxy.Options{Registerer: r})
	require.NoError(t, err)
	require.Contains(t, r.names, "registry_lb_members")
	return r.names
}

func requireKnownMetrics(t *testing.T, known map[string]bool, expression string) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	require.NoError(t, err, expression)
	selectors := 0
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			selectors++
			require.Contains(t, known, strings.TrimSuffix(selector.Name, "_bucket"), expression)
		}
		return nil
	})
	require.Positive(t, selectors, expression)
}

// rules is what the test reads of a PrometheusRule.
type rules struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

func TestAlertsAskForMetricsThatExist(t *testing.T) {
	known := exported(t)
	rule := find[rules](t, render(t, everything), "PrometheusRule", "registry-lb")
	require.Len(t, rule.Spec.Groups, 1)
	require.NotEmpty(t, rule.Spec.Groups[0].Rules)
	for _, alert := range rule.Spec.Groups[0].Rules {
		requireKnownMetrics(t, known, alert.Expr)
		require.NotEmpty(t, alert.Labels["severity"], alert.Alert)
		require.NotEmpty(t, alert.Annotations["summary"], alert.Alert)
	}
}

// The handbook says of each alert what it means, and of none that is not there.
func TestAlertsAreInTheHandbook(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	matches := regexp.MustCompile("(?m)^\\| `(RegistryLB[A-Za-z]+)` \\|").FindAllStringSubmatch(string(text), -1)
	described := make([]string, 0, len(matches))
	for _, match := range matches {
		described = append(described, match[1])
	}
	rule := find[rules](t, render(t, everything), "PrometheusRule", "registry-lb")
	alerts := make([]string, 0, len(described))
	for _, alert := range rule.Spec.Groups[0].Rules {
		alerts = append(alerts, alert.Alert)
	}
	require.ElementsMatch(t, alerts, described)
}

func TestTheDashboardAsksForMetricsThatExist(t *testing.T) {
	known := exported(t)
	config := find[corev1.ConfigMap](t, render(t, everything), "ConfigMap", "registry-lb-dashboard")
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(config.Data["registry-lb.json"]), &dashboard))
	require.NotEmpty(t, dashboard.Panels)
	for _, panel := range dashboard.Panels {
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			requireKnownMetrics(t, known, target.Expr)
		}
	}
}
