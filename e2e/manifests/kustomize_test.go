// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const componentDir = "../../manifests/kustomize"

// component returns the objects of the chart with its defaults as they stand in the component: without what belongs to
// helm or to a namespace, and without the front Service, which is NSM's own there.
func component(t *testing.T) string {
	t.Helper()
	text := "# Written from the Helm chart; see kustomization.yaml.\n"
	for _, object := range render(t, "") {
		if object.GetKind() == "Service" && object.GetName() == "registry" {
			continue
		}
		unstructured.RemoveNestedField(object.Object, "metadata", "namespace")
		labels := object.GetLabels()
		delete(labels, "helm.sh/chart")
		delete(labels, "app.kubernetes.io/managed-by")
		object.SetLabels(labels)
		if object.GetKind() == "RoleBinding" {
			subjects, _, err := unstructured.NestedSlice(object.Object, "subjects")
			require.NoError(t, err)
			delete(subjects[0].(map[string]any), "namespace")
			require.NoError(t, unstructured.SetNestedSlice(object.Object, subjects, "subjects"))
		}
		doc, err := yaml.Marshal(object.Object)
		require.NoError(t, err)
		text += "---\n" + string(doc)
	}
	return text
}

func TestComponentIsTheChart(t *testing.T) {
	file := componentDir + "/objects.yaml"
	want := component(t)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
		return
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, string(have), "write it anew with: go test -run TestComponentIsTheChart -update")
}

// build builds NSM's fixture with components, as kubectl apply -k does.
func build(t *testing.T, components ...string) []unstructured.Unstructured {
	t.Helper()
	fs := filesys.MakeFsInMemory()
	for _, dir := range []string{"testdata/nsm", componentDir} {
		base := map[string]string{"testdata/nsm": "/nsm", componentDir: "/kustomize"}[dir]
		require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return fs.WriteFile(base+strings.TrimPrefix(path, dir), text)
		}))
	}
	kustomization := "namespace: nsm-system\nresources: [../nsm]\n"
	if len(components) > 0 {
		kustomization += "components: [" + strings.Join(components, ", ") + "]\n"
	}
	require.NoError(t, fs.WriteFile("/all/kustomization.yaml", []byte(kustomization)))
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, "/all")
	require.NoError(t, err)
	text, err := built.AsYaml()
	require.NoError(t, err)
	return split(t, string(text))
}

func TestWithTheComponentClientsAreServedByRegistryLB(t *testing.T) {
	objects := build(t, "../kustomize")
	require.Equal(t, map[string]string{"app": "registry-lb"}, find[corev1.Service](t, objects, "Service", "registry").Spec.Selector)
	require.Equal(t, map[string]string{"app": "registry"}, find[corev1.Service](t, objects, "Service", "registry-k8s").Spec.Selector)
	front := find[appsv1.Deployment](t, objects, "Deployment", "registry-lb")
	require.Equal(t, "registry-lb", front.Spec.Template.Labels["app"])
	require.Equal(t, "nsm-system", front.Namespace)
	binding := find[rbacv1.RoleBinding](t, objects, "RoleBinding", "registry-lb")
	require.Equal(t, "nsm-system", binding.Subjects[0].Namespace)
}

func TestWithTheComponentReplicasOfRegistryK8sMayShareANode(t *testing.T) {
	before := find[appsv1.Deployment](t, build(t), "Deployment", "registry-k8s").Spec.Template.Spec.Containers[0]
	require.EqualValues(t, 5002, before.Ports[0].HostPort)

	after := find[appsv1.Deployment](t, build(t, "../kustomize"), "Deployment", "registry-k8s").Spec.Template.Spec.Containers[0]
	require.Equal(t, []corev1.ContainerPort{{ContainerPort: 5002}}, after.Ports)
	require.Nil(t, after.ReadinessProbe)
}

func TestTheReadinessProbeIsOptional(t *testing.T) {
	container := find[appsv1.Deployment](t, build(t, "../kustomize", "../kustomize/readiness"), "Deployment", "registry-k8s").Spec.Template.Spec.Containers[0]
	require.EqualValues(t, 5002, container.ReadinessProbe.TCPSocket.Port.IntVal)
}

func TestWithoutTheComponentTheServiceIsGivenBack(t *testing.T) {
	require.Equal(t, map[string]string{"app": "registry"}, find[corev1.Service](t, build(t), "Service", "registry").Spec.Selector)
}
