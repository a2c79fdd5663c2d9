// SPDX-License-Identifier: Apache-2.0

// Package giveback points the Service that clients know at the registry pods again, as the last thing that happens before
// registry-lb is uninstalled. The Service stays the same object with the same address, so there is no moment without it.
package giveback

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// Options say what is to be given back.
type Options struct {
	// Namespace and Service name the Service.
	Namespace, Service string
	// Selector are the labels of the registry pods, as in "app=registry".
	Selector string
	// TargetPort is the number or the name of the port on which the registry pods listen.
	TargetPort string
}

// Run gives the Service back. Doing it again does no harm. What others have changed at the Service meanwhile, other than
// the selector and the target ports, stays. Helm's marks and those of the chart are taken off: nobody manages the
// Service then, and whoever made it first may apply it again.
func Run(ctx context.Context, client kubernetes.Interface, o Options) error {
	selector, err := parse(o.Selector)
	if err != nil {
		return err
	}
	if o.TargetPort == "" {
		return errors.New("the port of the registry pods is missing")
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		service, err := client.CoreV1().Services(o.Namespace).Get(ctx, o.Service, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(service, selector, intstr.Parse(o.TargetPort))
		_, err = client.CoreV1().Services(o.Namespace).Update(ctx, service, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("give Service %s in namespace %s back: %w", o.Service, o.Namespace, err)
	}
	return nil
}

// parse reads a selector of equalities. One that is empty would select no pod, and clients had no registry.
func parse(text string) (map[string]string, error) {
	selector, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		return nil, fmt.Errorf("the selector %q of the registry pods: %w", text, err)
	}
	if len(selector) == 0 {
		return nil, errors.New("the selector of the registry pods is empty; as in app=registry")
	}
	return selector, nil
}

func change(service *corev1.Service, selector map[string]string, target intstr.IntOrString) {
	service.Spec.Selector = selector
	for i := range service.Spec.Ports {
		service.Spec.Ports[i].TargetPort = target
	}
	marked := func(key, _ string) bool {
		return strings.HasPrefix(key, "helm.sh/") || strings.HasPrefix(key, "meta.helm.sh/") || strings.HasPrefix(key, "app.kubernetes.io/")
	}
	maps.DeleteFunc(service.Labels, marked)
	maps.DeleteFunc(service.Annotations, marked)
}
