// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// userAgent is how registry-lb shows in the API server's audit log and metrics.
const userAgent = "registry-lb"

// NewClient returns a client for the cluster and the namespace that registry-lb is in. It looks where kubectl looks:
// the files in KUBECONFIG or ~/.kube/config, and the pod's service account if there are none. The namespace is
// POD_NAMESPACE, else that of the kubeconfig's context, else that of the service account, else "default". It connects to
// nothing yet.
func NewClient() (client kubernetes.Interface, namespace string, err error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{})
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", fmt.Errorf("no Kubernetes API server is known: there is no service account token of a pod, " +
			"and no usable kubeconfig (KUBECONFIG or ~/.kube/config)")
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the configuration of the Kubernetes client: %w", err)
	}
	config.UserAgent = userAgent
	if client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, "", fmt.Errorf("make the Kubernetes client: %w", err)
	}
	if namespace = os.Getenv("POD_NAMESPACE"); namespace != "" {
		return client, namespace, nil
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", fmt.Errorf("read the namespace of the Kubernetes client: %w", err)
	}
	return client, namespace, nil
}
