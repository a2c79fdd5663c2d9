// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestPodsNeverLookLikeRegistryPods(t *testing.T) {
	for name, v := range map[string]values{
		"defaults":                   "",
		"everything":                 everything,
		"a pod label that says so":   `podLabels: {app: registry}`,
		"a pod label without SPIFFE": `podLabels: {spiffe.io/spiffe-id: "false"}`,
	} {
		t.Run(name, func(t *testing.T) {
			deployment := find[appsv1.Deployment](t, render(t, v), "Deployment", "registry-lb")
			labels := deployment.Spec.Template.Labels
			require.Equal(t, "registry-lb", labels["app"])
			require.Equal(t, "true", labels["spiffe.io/spiffe-id"])
		})
	}
}

func TestTheRoleReadsEndpointSlicesAndNothingElse(t *testing.T) {
	role := find[rbacv1.Role](t, render(t, everything), "Role", "registry-lb")
	require.Equal(t, []rbacv1.PolicyRule{{
		APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"get", "list", "watch"},
	}}, role.Rules)
}

func TestTheGracePeriodCoversTheDrain(t *testing.T) {
	for name, row := range map[string]struct {
		values values
		want   int64
	}{
		"defaults":              {"", 30},
		"parts of a second":     {`config: {drainDelay: 1500ms, drainTimeout: 100ms}`, 8},
		"several units":         {`config: {drainDelay: 1m30s, drainTimeout: 1h}`, 90 + 3600 + 5},
		"a sleep before":        {`preStopSleepSeconds: 3`, 33},
		"no drain":              {`config: {drainDelay: 0s, drainTimeout: 0s}`, 5},
		"a margin of one's own": {`terminationMarginSeconds: 60`, 85},
	} {
		t.Run(name, func(t *testing.T) {
			spec := find[appsv1.Deployment](t, render(t, row.values), "Deployment", "registry-lb").Spec.Template.Spec
			require.Equal(t, row.want, *spec.TerminationGracePeriodSeconds)
		})
	}
}

func TestPodsAreRestricted(t *testing.T) {
	spec := find[appsv1.Deployment](t, render(t, everything), "Deployment", "registry-lb").Spec.Template.Spec
	require.True(t, *spec.SecurityContext.RunAsNonRoot)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type)
	require.Len(t, spec.Containers, 1)
	container := spec.Containers[0].SecurityContext
	require.False(t, *container.AllowPrivilegeEscalation)
	require.True(t, *container.ReadOnlyRootFilesystem)
	require.Equal(t, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, container.Capabilities)
}

// Helm and kubectl merge selectors key by key into a Service that is there already, and remove no key that they did not
// set themselves. So both selectors must have the same keys.
func TestTheFrontServiceCanTakeOverThatOfNSM(t *testing.T) {
	front := find[corev1.Service](t, render(t, ""), "Service", "registry")
	require.Equal(t, map[string]string{"app": "registry-lb"}, front.Spec.Selector)
	require.Equal(t, "keep", front.Annotations["helm.sh/resource-policy"])

	registries := find[corev1.Service](t, render(t, ""), "Service", "registry-k8s")
	require.Equal(t, corev1.ClusterIPNone, registries.Spec.ClusterIP)
	require.Equal(t, map[string]string{"app": "registry"}, registries.Spec.Selector)
}

// hooks returns the objects that helm makes before it deletes the release.
func hooks(t *testing.T, v values) []unstructured.Unstructured {
	t.Helper()
	rel, err := install(t, "registry-lb", v)
	require.NoError(t, err)
	var objects []unstructured.Unstructured
	for _, hook := range rel.Hooks {
		if slices.Contains(hook.Events, release.HookPreDelete) {
			require.ElementsMatch(t, []release.HookDeletePolicy{release.HookBeforeHookCreation, release.HookSucceeded}, hook.DeletePolicies, hook.Name)
			objects = append(objects, split(t, hook.Manifest)...)
		}
	}
	return objects
}

func TestUninstallGivesTheServiceBack(t *testing.T) {
	objects := hooks(t, `registry: {selector: {app: registry, tier: control}, port: 5003}`)
	job := find[batchv1.Job](t, objects, "Job", "registry-lb-give-back")
	spec := job.Spec.Template.Spec
	require.Equal(t, "registry-lb-give-back", spec.ServiceAccountName)
	require.Len(t, spec.Containers, 1)
	require.Equal(t, []string{"give-back", "registry", "--selector=app=registry,tier=control", "--target-port=5003"}, spec.Containers[0].Args)
	require.Empty(t, spec.Containers[0].Command, "the image's own entry point is to run")
	require.True(t, *spec.SecurityContext.RunAsNonRoot)
	require.NotEqual(t, "registry", job.Spec.Template.Labels["app"])
	require.NotEqual(t, "registry-lb", job.Spec.Template.Labels["app"])
	// Helm runs hooks by weight: what the job needs comes first.
	require.Equal(t, "1", job.Annotations["helm.sh/hook-weight"])
	require.Equal(t, "0", find[rbacv1.RoleBinding](t, objects, "RoleBinding", "registry-lb-give-back").Annotations["helm.sh/hook-weight"])
}

func TestTheStepThatGivesBackMayChangeThatServiceAlone(t *testing.T) {
	role := find[rbacv1.Role](t, hooks(t, `frontService: {name: front}`), "Role", "registry-lb-give-back")
	require.Equal(t, []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"services"}, ResourceNames: []string{"front"}, Verbs: []string{"get", "update"},
	}}, role.Rules)
}

func TestTheServiceIsNotGivenBackWhereItIsNotTaken(t *testing.T) {
	require.Empty(t, hooks(t, `frontService: {giveBack: false}`))
	require.Empty(t, hooks(t, `frontService: {create: false}`))
}

func TestNamesFollowTheRelease(t *testing.T) {
	rel, err := install(t, "front", "")
	require.NoError(t, err)
	deployment := find[appsv1.Deployment](t, split(t, rel.Manifest), "Deployment", "front-registry-lb")
	front := find[corev1.Service](t, split(t, rel.Manifest), "Service", "registry")
	require.Equal(t, deployment.Spec.Selector.MatchLabels, front.Spec.Selector)
	require.Equal(t, "front-registry-lb", strings.TrimSpace(front.Spec.Selector["app"]))
}
