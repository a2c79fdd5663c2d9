// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const chartDir = "../../manifests/registry-lb"

// values are the values of a chart as YAML, short enough to stand in a table.
type values string

func (v values) parse(t *testing.T) map[string]any {
	t.Helper()
	parsed := make(map[string]any)
	require.NoError(t, yaml.Unmarshal([]byte(v), &parsed))
	return parsed
}

// install renders the chart as helm install does, without a cluster.
func install(t *testing.T, name string, v values) (*release.Release, error) {
	t.Helper()
	chart, err := loader.Load(chartDir)
	require.NoError(t, err)
	client := action.NewInstall(new(action.Configuration))
	client.ClientOnly, client.DryRun = true, true
	client.ReleaseName, client.Namespace = name, "nsm-system"
	client.KubeVersion = &chartutil.KubeVersion{Version: "v1.37.2", Major: "1", Minor: "37"}
	return client.Run(chart, v.parse(t))
}

// render returns the objects of the release, hooks left out.
func render(t *testing.T, v values) []unstructured.Unstructured {
	t.Helper()
	rel, err := install(t, "registry-lb", v)
	require.NoError(t, err)
	return split(t, rel.Manifest)
}

func split(t *testing.T, manifest string) []unstructured.Unstructured {
	t.Helper()
	var objects []unstructured.Unstructured
	for doc := range strings.SplitSeq("\n"+manifest, "\n---") {
		var object unstructured.Unstructured
		require.NoError(t, yaml.UnmarshalStrict([]byte(doc), &object.Object), doc)
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects
}

// find converts the one object of that kind and name into the typed one.
func find[T any](t *testing.T, objects []unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			typed := new(T)
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true))
			return typed
		}
	}
	require.Failf(t, "not rendered", "%s %q", kind, name)
	return nil
}

func kinds(objects []unstructured.Unstructured) map[string]int {
	counts := make(map[string]int)
	for _, object := range objects {
		counts[object.GetKind()]++
	}
	return counts
}

// everything switches on all that is optional.
const everything values = `
autoscaling: {enabled: true}
networkPolicy: {enabled: true}
serviceMonitor: {enabled: true}
prometheusRule: {enabled: true}
dashboard: {enabled: true}
preStopSleepSeconds: 3
spiffe: {mode: csi}
affinity: {podAntiAffinity: required}
`

func TestLintIsClean(t *testing.T) {
	for name, v := range map[string]values{"defaults": "", "everything": everything} {
		t.Run(name, func(t *testing.T) {
			linter := lint.All(chartDir, v.parse(t), "nsm-system", true)
			for _, message := range linter.Messages {
				if message.Severity >= support.WarningSev {
					t.Error(message)
				}
			}
		})
	}
}

func TestOptionalPartsComeWhenAskedFor(t *testing.T) {
	require.Equal(t, map[string]int{
		"Deployment": 1, "Service": 3, "ServiceAccount": 1, "Role": 1, "RoleBinding": 1, "PodDisruptionBudget": 1,
	}, kinds(render(t, "")))
	require.Equal(t, map[string]int{
		"Deployment": 1, "Service": 3, "ServiceAccount": 1, "Role": 1, "RoleBinding": 1, "PodDisruptionBudget": 1,
		"HorizontalPodAutoscaler": 1, "NetworkPolicy": 1, "ServiceMonitor": 1, "PrometheusRule": 1, "ConfigMap": 1,
	}, kinds(render(t, everything)))
}

func TestBadValuesAreRefusedByName(t *testing.T) {
	for name, row := range map[string]struct {
		values values
		says   []string
	}{
		"a duration without a unit":         {`config: {drainDelay: "5"}`, []string{"drainDelay", "5"}},
		"a store that is not known":         {`config: {store: split}`, []string{"store", "shared"}},
		"a variable that is not known":      {`config: {drainDelai: 5s}`, []string{"drainDelai"}},
		"a value that is not known":         {`replicas: 3`, []string{"replicas"}},
		"a negative count of replicas":      {`replicaCount: -1`, []string{"replicaCount"}},
		"an admin port on a Unix socket":    {`config: {adminListenOn: "unix:///run/x"}`, []string{"adminListenOn"}},
		"a port beyond the last":            {`frontService: {port: 65536}`, []string{"frontService/port", "65,535"}},
		"a SPIFFE volume of another kind":   {`spiffe: {mode: emptyDir}`, []string{"mode", "csi"}},
		"the registry pods' own label":      {`fullnameOverride: registry`, []string{"fullnameOverride"}},
		"fewer replicas at most than least": {`autoscaling: {enabled: true, minReplicas: 3, maxReplicas: 2}`, []string{"minReplicas"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := install(t, "registry-lb", row.values)
			require.Error(t, err)
			for _, part := range row.says {
				require.ErrorContains(t, err, part)
			}
		})
	}
}
