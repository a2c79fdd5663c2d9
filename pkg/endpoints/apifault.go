// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// explainAPIError turns an error of the API server into one line that says what to do. The kind is the same for
// errors that mean the same, whatever their text.
func explainAPIError(verb, namespace string, err error) (kind string, explained error) {
	const resource = "endpointslices.discovery.k8s.io"
	what := fmt.Sprintf("cannot %s %s in namespace %q", verb, resource, namespace)
	said := strings.Join(strings.Fields(err.Error()), " ")
	var status apierrors.APIStatus
	switch {
	case apierrors.IsForbidden(err):
		return verb + " forbidden", fmt.Errorf("%s: give registry-lb's service account get, list and watch on them with "+
			"a Role and a RoleBinding in that namespace (the API server says: %s)", what, said)
	case apierrors.IsUnauthorized(err):
		return "unauthorized", fmt.Errorf("%s: the API server does not accept the credentials of registry-lb, "+
			"look at its service account token or kubeconfig (the API server says: %s)", what, said)
	case apierrors.IsNotFound(err):
		return "not found", fmt.Errorf("%s: the API server does not know discovery.k8s.io/v1, "+
			"Kubernetes 1.21 or later is needed (the API server says: %s)", what, said)
	case apierrors.IsTooManyRequests(err):
		return "too many requests", fmt.Errorf("%s: the API server is overloaded (it says: %s)", what, said)
	case utilnet.IsConnectionRefused(err) || !errors.As(err, &status):
		return "unreachable", fmt.Errorf("%s: the API server cannot be reached (%s)", what, said)
	default:
		return verb + " failed", fmt.Errorf("%s: the API server says: %s", what, said)
	}
}
