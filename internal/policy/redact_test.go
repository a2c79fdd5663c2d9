// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"

	"github.com/networkservicemesh/sdk/pkg/registry/common/grpcmetadata"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestPolicyRedactsAnErrorThatRepeatsAToken(t *testing.T) {
	secret := strings.Repeat("e30.", 20)
	c := &call{segments: []*grpcmetadata.PathSegment{nil, {}, {Token: "short"}, {Token: secret}}}

	leaky := status.Error(codes.Internal, "cannot fetch http://a/"+secret+"?b")
	redacted := c.redact(leaky)
	require.NotContains(t, redacted.Error(), secret)
	require.Equal(t, codes.Internal, status.Code(redacted))

	harmless := status.Error(codes.PermissionDenied, "too short")
	require.Equal(t, harmless, c.redact(harmless))
	require.NoError(t, c.redact(nil))
}
