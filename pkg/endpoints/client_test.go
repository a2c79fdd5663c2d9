// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: of-context}}]
current-context: x
users: [{name: u, user: {token: secret}}]
`

func TestNewClient(t *testing.T) {
	for _, tc := range []struct {
		sentence, content, podNamespace string
		namespace, err                  string
	}{
		{sentence: "the namespace comes from the context of the kubeconfig", content: kubeconfig, namespace: "of-context"},
		{sentence: "the namespace of the pod wins", content: kubeconfig, podNamespace: "of-pod", namespace: "of-pod"},
		{sentence: "without any configuration there is no API server", err: "no Kubernetes API server is known"},
		{sentence: "a broken kubeconfig is named", content: "][", err: "config"},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config")
			if tc.content != "" {
				require.NoError(t, os.WriteFile(path, []byte(tc.content), 0o600))
			}
			t.Setenv("KUBECONFIG", path)
			t.Setenv("POD_NAMESPACE", tc.podNamespace)
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			client, namespace, err := NewClient()
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.NotContains(t, err.Error(), "secret")
				return
			}
			require.NoError(t, err)
			require.NotNil(t, client)
			require.Equal(t, tc.namespace, namespace)
		})
	}
}
