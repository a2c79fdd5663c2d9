// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
)

const chart = "../../manifests/registry-lb"

// uninstall takes registry-lb away if helm has installed it.
func uninstall(t *testing.T) {
	t.Helper()
	if _, err := output(t, "", tools.helm, "status", release, "-n", namespace); err == nil {
		helm(t, "uninstall", release, "-n", namespace, "--wait", "--timeout=3m")
	}
}

func front(t *testing.T) *corev1.Service {
	t.Helper()
	service, err := tools.kube.CoreV1().Services(namespace).Get(t.Context(), "registry", metav1.GetOptions{})
	require.NoError(t, err)
	return service
}

// The chart is checked by helm itself, and bad values are refused with a line that says what is wrong.
func TestChart(t *testing.T) {
	helm(t, "lint", "--strict", chart)
	for name, test := range map[string]struct{ set, want string }{
		"a store that is none":      {"config.store=some", "config/store"},
		"a number of pods below 1":  {"replicaCount=-1", "replicaCount"},
		"a duration without a unit": {"config.probeInterval=5", "config/probeInterval"},
		"a value that is not known": {"replicas=3", "replicas"},
		"the label of registries":   {"fullnameOverride=registry", "app of the registry pods"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := output(t, "", tools.helm, "template", release, chart, "--kube-version=1.37.2", "--set", test.set)
			require.ErrorContains(t, err, test.want)
			t.Logf("--set %s: %v", test.set, err)
		})
	}
}

// registry-lb comes into a running system and leaves it again, and no NSE is lost.
func TestTakeOver(t *testing.T) {
	const count = 60
	givenNSM(t, 3)
	uninstall(t)
	kubectl(t, "apply", "-k", "testdata/nsm")
	freePorts(t)
	scale(t, 3)
	before := front(t)
	require.Equal(t, map[string]string{"app": "registry"}, before.Spec.Selector)
	client := givenFleet(t, namespace, "fleet", throughFront)
	deleted := watchDeletions(t)
	g := register(t, client, "takeover", fleet.Order{Count: count, Pulse: slowPulse})
	unchanged := func(app string) {
		t.Helper()
		service := front(t)
		require.Equal(t, before.UID, service.UID, "the Service is another one")
		require.Equal(t, before.Spec.ClusterIP, service.Spec.ClusterIP)
		require.Equal(t, map[string]string{"app": app}, service.Spec.Selector)
		g.awaitRefresh()
		require.Equal(t, count, g.report().Living)
		require.Equal(t, count, g.find())
		require.Empty(t, deleted(), "living NSEs are gone")
	}
	install := append([]string{"install", release, chart, "-n", namespace, "--wait", "--timeout=2m"}, image()...)

	_, err := output(t, "", tools.helm, install...)
	require.ErrorContains(t, err, "invalid ownership metadata", "what NSM made is not taken without being told to")
	began := time.Now()
	out := helm(t, append(install, "--take-ownership")...)
	t.Logf("installed in %.1f s\n%s", time.Since(began).Seconds(), out)
	awaitMembers(t)
	unchanged(release)
	t.Logf("helm test:\n%s", helm(t, "test", release, "-n", namespace, "--logs", "--timeout=1m"))
	began = time.Now()
	helm(t, append([]string{"upgrade", release, chart, "-n", namespace, "--wait", "--timeout=2m", "--set=config.logLevel=DEBUG"}, image()...)...)
	t.Logf("upgraded in %.1f s", time.Since(began).Seconds())
	awaitMembers(t)
	unchanged(release)

	// NSM's manifests may be applied again at any time; an upgrade takes the Service again.
	kubectl(t, "apply", "-k", "testdata/nsm")
	freePorts(t)
	scale(t, 3)
	require.Equal(t, "registry", front(t).Spec.Selector["app"])
	helm(t, append([]string{"upgrade", release, chart, "-n", namespace, "--wait", "--timeout=2m"}, image()...)...)
	awaitMembers(t)
	unchanged(release)

	// While it is uninstalled there is always some pod behind the Service.
	stop := watchEndpoints(t, "registry")
	began = time.Now()
	uninstall(t)
	fewest := stop()
	t.Logf("uninstalled in %.1f s; fewest endpoints of the Service meanwhile: %d", time.Since(began).Seconds(), fewest)
	require.NotZero(t, fewest, "for a moment there was nobody behind the Service")
	awaitGone(t)
	unchanged("registry")
	require.Empty(t, front(t).Labels["app.kubernetes.io/managed-by"])

	helm(t, append(install, "--take-ownership")...)
	awaitMembers(t)
	unchanged(release)
	require.Zero(t, g.unregister().FailedCalls)
	require.Empty(t, stored(t))
	requireNoErrors(t)
}

// The other order: where there is no Service yet the chart makes it, and NSM's manifests come later.
func TestOwnServiceFirst(t *testing.T) {
	const count = 20
	givenNSM(t, 2)
	uninstall(t)
	kubectl(t, "-n", namespace, "delete", "service", "registry", "--wait")
	helm(t, append([]string{"install", release, chart, "-n", namespace, "--wait", "--timeout=2m"}, image()...)...)
	awaitMembers(t)
	before := front(t)
	require.Equal(t, release, before.Spec.Selector["app"])
	client := givenFleet(t, namespace, "fleet", throughFront)
	deleted := watchDeletions(t)
	g := register(t, client, "own", fleet.Order{Count: count, Pulse: slowPulse})

	kubectl(t, "apply", "-k", "testdata/nsm")
	freePorts(t)
	scale(t, 2)
	require.Equal(t, map[string]string{"app": "registry"}, front(t).Spec.Selector)
	g.awaitRefresh()
	helm(t, append([]string{"upgrade", release, chart, "-n", namespace, "--wait", "--timeout=2m"}, image()...)...)
	awaitMembers(t)
	require.Equal(t, map[string]string{"app": release}, front(t).Spec.Selector)
	require.Equal(t, before.UID, front(t).UID)
	require.Equal(t, before.Spec.ClusterIP, front(t).Spec.ClusterIP)
	g.awaitRefresh()
	require.Equal(t, count, g.find())
	require.Empty(t, deleted(), "living NSEs are gone")
	require.Zero(t, g.unregister().FailedCalls)
	require.Empty(t, stored(t))
	requireNoErrors(t)
}

// watchEndpoints returns a function that says how few ready endpoints a Service has had since, all its slices taken
// together.
func watchEndpoints(t *testing.T, service string) (fewest func() int) {
	t.Helper()
	endpointSlices := tools.kube.DiscoveryV1().EndpointSlices(namespace)
	options := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service}
	list, err := endpointSlices.List(t.Context(), options)
	require.NoError(t, err)
	readyOf := make(map[string]int) // by slice
	sum := func() (n int) {
		for _, ready := range readyOf {
			n += ready
		}
		return n
	}
	for i := range list.Items {
		readyOf[list.Items[i].Name] = readyEndpoints(&list.Items[i])
	}
	options.ResourceVersion = list.ResourceVersion
	w, err := endpointSlices.Watch(t.Context(), options)
	require.NoError(t, err)
	done := make(chan int, 1)
	go func() {
		least := sum()
		for event := range w.ResultChan() {
			slice, ok := event.Object.(*discoveryv1.EndpointSlice)
			if !ok {
				break
			}
			readyOf[slice.Name] = readyEndpoints(slice)
			if event.Type == watch.Deleted {
				delete(readyOf, slice.Name)
			}
			least = min(least, sum())
		}
		done <- least
	}()
	return func() int {
		w.Stop()
		return <-done
	}
}

// With NSM's own kustomize the same comes about.
func TestKustomize(t *testing.T) {
	const count = 40
	givenNSM(t, 2)
	uninstall(t)
	client := givenFleet(t, namespace, "fleet", throughFront)
	deleted := watchDeletions(t)
	g := register(t, client, "kustomize", fleet.Order{Count: count, Pulse: slowPulse})
	kubectl(t, "apply", "-k", "testdata/with-registry-lb")
	kubectl(t, "-n", namespace, "rollout", "status", "deployment/registry-lb", "--timeout=2m")
	// More replicas than nodes, without a patch of one's own.
	scale(t, 4)
	awaitMembers(t)
	require.Equal(t, release, front(t).Spec.Selector["app"])
	g.awaitRefresh()
	require.Equal(t, count, g.find())
	require.Empty(t, deleted(), "living NSEs are gone")
	require.Zero(t, g.unregister().FailedCalls)
	require.Empty(t, stored(t))
	requireNoErrors(t)

	// Without the component the Service is the registry's again; what else it made has to be deleted.
	kubectl(t, "apply", "-k", "testdata/nsm")
	freePorts(t)
	require.Equal(t, "registry", front(t).Spec.Selector["app"])
	kubectl(t, "-n", namespace, "delete", "deployment,service,serviceaccount,role,rolebinding,poddisruptionbudget",
		"-l", "app.kubernetes.io/name=registry-lb", "--wait")
	awaitGone(t)
}

// awaitGone waits until registry-lb has no pods any more.
func awaitGone(t *testing.T) {
	t.Helper()
	eventually(t, "the pods of registry-lb are gone", func() error {
		if left := names(balancers(t)); len(left) > 0 {
			return errors.New(strings.Join(left, " "))
		}
		return nil
	})
}
