// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
)

// helmWithImage is helm, but what it installs has the image of the tests.
const helmWithImage = `#!/bin/sh
case "$1" in
install | upgrade) exec "%s" "$@" %s ;;
*) exec "%s" "$@" ;;
esac
`

// Each command of the handbook works, in the order in which it has them.
func TestOperations(t *testing.T) {
	const count = 20
	givenNSM(t, 2)
	uninstall(t)
	kubectl(t, "apply", "-k", "testdata/nsm")
	client := givenFleet(t, namespace, "fleet", throughFront)
	deleted := watchDeletions(t)
	g := register(t, client, "nse", fleet.Order{Count: count, Pulse: slowPulse})

	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, blocks)
	bin := t.TempDir()
	script := fmt.Sprintf(helmWithImage, tools.helm, strings.Join(image(), " "), tools.helm)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "helm"), []byte(script), 0o755))
	require.NoError(t, os.Symlink(tools.kubectl, filepath.Join(bin, "kubectl")))
	for _, block := range blocks {
		for command := range strings.Lines(block[1]) {
			out, err := output(t, "", "sh", "-c", fmt.Sprintf("set -e\nPATH=%s:$PATH\ncd ../..\n%s", bin, command))
			require.NoError(t, err, command)
			if strings.Contains(command, "locate") || strings.Contains(command, "members") {
				t.Logf("%s%s", command, out)
			}
		}
	}
	require.Equal(t, "registry", front(t).Spec.Selector["app"])
	awaitGone(t)
	g.awaitRefresh()
	require.Empty(t, deleted(), "living NSEs are gone")
	require.Zero(t, g.unregister().FailedCalls)
	kubectl(t, "-n", namespace, "delete", "networkserviceendpoints", "--all")
}
