// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/networkservicemesh/registry-lb/internal/identity/workloadtest"
)

const (
	namespace  = "nsm-system"
	registries = "registry-k8s"
	release    = "registry-lb"
	tick       = 200 * time.Millisecond
)

// output runs a tool to its end and returns what it writes.
func output(t *testing.T, stdin, tool string, args ...string) (string, error) {
	t.Helper()
	// Clean-up runs tools, too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*patience)
	defer cancel()
	command := exec.CommandContext(ctx, tool, args...)
	command.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), errors.New(strings.TrimSpace(stdout.String() + "\n" + stderr.String()))
	}
	return stdout.String(), nil
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := output(t, "", tools.kubectl, args...)
	require.NoError(t, err, "kubectl %v", args)
	return out
}

func apply(t *testing.T, manifest string) {
	t.Helper()
	_, err := output(t, manifest, tools.kubectl, "apply", "-f", "-")
	require.NoError(t, err)
}

func applyFile(t *testing.T, file string, replacements ...string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	apply(t, strings.NewReplacer(replacements...).Replace(string(text)))
}

func helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := output(t, "", tools.helm, args...)
	require.NoError(t, err, "helm %v", args)
	return out
}

// eventually polls until check returns no error.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			require.NoError(t, err, what)
		case <-ticker.C:
		}
	}
}

// span lets some time pass, while something else happens that is to be watched.
func span(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

// givenIdentities has each pod get an SVID.
func givenIdentities(t *testing.T) {
	t.Helper()
	_, err := tools.kube.CoreV1().Secrets("spire").Get(t.Context(), "authority", metav1.GetOptions{})
	if err == nil {
		applyFile(t, "testdata/agent.yaml")
		kubectl(t, "-n", "spire", "rollout", "status", "daemonset/agent", "--timeout=2m")
		return
	}
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	authority, err := workloadtest.NewAuthority("k8s.nsm")
	require.NoError(t, err)
	text, err := authority.PEM()
	require.NoError(t, err)
	applyFile(t, "testdata/agent.yaml")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "authority"}, Data: map[string][]byte{"authority.pem": text}}
	_, err = tools.kube.CoreV1().Secrets("spire").Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)
	kubectl(t, "-n", "spire", "rollout", "status", "daemonset/agent", "--timeout=2m")
}

// givenNSM has NSM's registry there, as NSM installs it, with so many replicas and no NSEs.
func givenNSM(t *testing.T, replicas int) {
	t.Helper()
	givenIdentities(t)
	logRequests(t)
	_, err := tools.kube.AppsV1().Deployments(namespace).Get(t.Context(), registries, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		kubectl(t, "apply", "-k", "testdata/nsm")
	}
	// What a test that failed has left would go on, and end, during this one.
	kubectl(t, "-n", namespace, "delete", "pods", "-l", "app=fleet", "--wait")
	kubectl(t, "-n", namespace, "delete", "networkserviceendpoints", "--all")
	freePorts(t)
	scale(t, replicas)
}

// freePorts takes the host port away, as docs/operations.md has it: with it, there can be one replica a node.
func freePorts(t *testing.T) {
	t.Helper()
	kubectl(t, "-n", namespace, "patch", "deployment", registries, "--type=strategic",
		`-p={"spec":{"template":{"spec":{"containers":[{"name":"registry","ports":[{"containerPort":5002,"hostPort":null}]}]}}}}`)
}

// scale gives the registry so many replicas, and returns when they run and no others do.
func scale(t *testing.T, replicas int) {
	t.Helper()
	kubectl(t, "-n", namespace, "scale", "deployment", registries, "--replicas="+strconv.Itoa(replicas))
	eventually(t, "replicas of registry-k8s", func() error {
		pods := podsOf(t, namespace, "app=registry")
		if len(pods) != replicas || slices.ContainsFunc(pods, func(p corev1.Pod) bool { return !ready(p) }) {
			return errors.New(kubectl(t, "-n", namespace, "get", "pods", "-o", "wide"))
		}
		return nil
	})
}

func podsOf(t *testing.T, namespace, selector string) []corev1.Pod {
	t.Helper()
	list, err := tools.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	require.NoError(t, err)
	return list.Items
}

func ready(p corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func names(pods []corev1.Pod) []string {
	names := make([]string, 0, len(pods))
	for _, p := range pods {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// image are the values with which the chart uses the image of the tests.
func image() []string {
	return []string{"--set=image.repository=registry-lb-e2e/registry-lb", "--set=image.tag=dev", "--set=image.pullPolicy=Never"}
}

// givenRegistryLB has registry-lb installed, and ready with all replicas.
func givenRegistryLB(t *testing.T) {
	t.Helper()
	out, err := output(t, "", tools.helm, "status", release, "-n", namespace)
	if err != nil {
		require.ErrorContains(t, err, "not found", out)
		helm(t, append([]string{"install", release, "../../manifests/registry-lb", "-n", namespace, "--take-ownership", "--wait", "--timeout=2m"}, image()...)...)
	}
	awaitMembers(t)
}

// stored returns the names of the NSEs in the API server.
func stored(t *testing.T) []string {
	t.Helper()
	list, err := tools.nsm.NetworkservicemeshV1().NetworkServiceEndpoints(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}
