// SPDX-License-Identifier: Apache-2.0

package giveback_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/networkservicemesh/registry-lb/internal/giveback"
)

func taken() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "registry", Namespace: "nsm-system", UID: "1",
			Labels: map[string]string{
				"team": "mesh", "helm.sh/chart": "registry-lb-0.1.0", "app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/name": "registry-lb",
			},
			Annotations: map[string]string{"note": "ours", "meta.helm.sh/release-name": "registry-lb", "helm.sh/resource-policy": "keep"},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.7",
			Selector:  map[string]string{"app": "registry-lb"},
			Ports:     []corev1.ServicePort{{Name: "registry", Port: 5002, TargetPort: intstr.FromString("registry"), NodePort: 30002}},
		},
	}
}

func options() giveback.Options {
	return giveback.Options{Namespace: "nsm-system", Service: "registry", Selector: "app=registry,tier=control", TargetPort: "5002"}
}

func TestTheServiceIsTheRegistrysAgain(t *testing.T) {
	client := fake.NewClientset(taken())
	for range 2 { // twice is as good as once
		require.NoError(t, giveback.Run(t.Context(), client, options()))
		service, err := client.CoreV1().Services("nsm-system").Get(t.Context(), "registry", metav1.GetOptions{})
		require.NoError(t, err)
		want := taken()
		want.Labels, want.Annotations = map[string]string{"team": "mesh"}, map[string]string{"note": "ours"}
		want.Spec.Selector = map[string]string{"app": "registry", "tier": "control"}
		want.Spec.Ports[0].TargetPort = intstr.FromInt32(5002)
		want.ManagedFields = service.ManagedFields
		require.Equal(t, want, service)
	}
}

func TestAServiceThatOthersChangeIsGivenBackAllTheSame(t *testing.T) {
	client := fake.NewClientset(taken())
	conflicts := 2
	client.PrependReactor("update", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "registry", nil)
	})
	require.NoError(t, giveback.Run(t.Context(), client, options()))
	require.Negative(t, conflicts)
}

func TestWhatCannotBeGivenBack(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*giveback.Options)
		want   string
	}{
		"no selector would leave clients without a registry": {
			func(o *giveback.Options) { o.Selector = "" }, "the selector of the registry pods is empty; as in app=registry",
		},
		"a selector is made of equalities": {
			func(o *giveback.Options) { o.Selector = "app in (registry)" }, `the selector "app in (registry)" of the registry pods: `,
		},
		"a port is needed": {
			func(o *giveback.Options) { o.TargetPort = "" }, "the port of the registry pods is missing",
		},
		"a Service that is not there": {
			func(o *giveback.Options) { o.Service = "other" },
			`give Service other in namespace nsm-system back: services "other" not found`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			test.change(&o)
			require.ErrorContains(t, giveback.Run(t.Context(), fake.NewClientset(taken()), o), test.want)
		})
	}
}
