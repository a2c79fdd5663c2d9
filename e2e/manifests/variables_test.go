// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
)

// documented returns the variables of the table in docs/configuration.md with their defaults. The tests of the package
// config hold that table to the binary.
func documented(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	variables := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `(NSM_[A-Z_]+)` \\| `([^`]*)` \\|").FindAllStringSubmatch(string(text), -1) {
		variables[row[1]] = row[2]
	}
	require.NotEmpty(t, variables)
	return variables
}

func rendered(t *testing.T, v values) map[string]string {
	t.Helper()
	variables := make(map[string]string)
	deployment := find[appsv1.Deployment](t, render(t, v), "Deployment", "registry-lb")
	for _, env := range deployment.Spec.Template.Spec.Containers[0].Env {
		if strings.HasPrefix(env.Name, "NSM_") {
			variables[env.Name] = env.Value
		}
	}
	return variables
}

func TestEachVariableHasAValueWithTheBinarysDefault(t *testing.T) {
	require.Equal(t, documented(t), rendered(t, ""))
}

func TestValuesReachTheirVariables(t *testing.T) {
	for name, row := range map[string]struct {
		values         values
		variable, want string
	}{
		"a duration":                    {`config: {joinDelay: 7s}`, "NSM_JOIN_DELAY", "7s"},
		"no policies":                   {`config: {registryServerPolicies: ""}`, "NSM_REGISTRY_SERVER_POLICIES", ""},
		"a switch":                      {`config: {pprofEnabled: true}`, "NSM_PPROF_ENABLED", "true"},
		"backends of another kind":      {`config: {backends: "static://a:1"}`, "NSM_BACKENDS", "static://a:1"},
		"a headless Service's name":     {`registry: {service: {name: memory}}`, "NSM_BACKENDS", "k8s:///memory:registry"},
		"partitioned registries behind": {`config: {store: partitioned}`, "NSM_STORE", "partitioned"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, rendered(t, row.values)[row.variable])
		})
	}
}

func TestPortsFollowTheListeners(t *testing.T) {
	deployment := find[appsv1.Deployment](t, render(t,
		`config: {listenOn: "unix:///run/x.sock,tcp://:6002,tcp://:6003", adminListenOn: "tcp://:7070"}`), "Deployment", "registry-lb")
	ports := deployment.Spec.Template.Spec.Containers[0].Ports
	require.Len(t, ports, 2)
	require.EqualValues(t, 6002, ports[0].ContainerPort)
	require.EqualValues(t, 7070, ports[1].ContainerPort)
}
