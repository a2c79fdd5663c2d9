// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// instructions returns the arguments of each instruction of the stage that all others of Dockerfile are made of.
func instructions(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../../Dockerfile")
	require.NoError(t, err)
	found := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		instruction, arguments, _ := strings.Cut(strings.TrimSpace(line), " ")
		if instruction == "FROM" && found["FROM"] != "" {
			break
		}
		found[instruction] = arguments
	}
	return found
}

func TestTheImageIsWhatDockerfileMakes(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "registry-lb")
	require.NoError(t, os.WriteFile(binary, []byte("a binary"), 0o700))
	archive := filepath.Join(t.TempDir(), "image.tar")
	require.NoError(t, RegistryLB("registry-lb:dev", binary).Write(archive))
	tag, err := name.NewTag("registry-lb:dev")
	require.NoError(t, err)
	image, err := tarball.ImageFromPath(archive, &tag)
	require.NoError(t, err)

	config, err := image.ConfigFile()
	require.NoError(t, err)
	docker := instructions(t)
	require.Equal(t, "scratch AS base", docker["FROM"])
	require.Equal(t, docker["USER"], config.Config.User)
	require.Equal(t, docker["ENTRYPOINT"], `["`+strings.Join(config.Config.Entrypoint, `", "`)+`"]`)
	ports := strings.Fields(docker["EXPOSE"])
	require.Len(t, config.Config.ExposedPorts, len(ports))
	for _, port := range ports {
		require.Contains(t, config.Config.ExposedPorts, port+"/tcp")
	}

	files := tar.NewReader(mutate.Extract(image))
	header, err := files.Next()
	require.NoError(t, err)
	require.Equal(t, "registry-lb", header.Name)
	require.EqualValues(t, 0o755, header.Mode)
	content, err := io.ReadAll(files)
	require.NoError(t, err)
	require.Equal(t, "a binary", string(content))
	_, err = files.Next()
	require.ErrorIs(t, err, io.EOF, "there is nothing else in it")
}

func TestAnImageOfNothing(t *testing.T) {
	err := RegistryLB("registry-lb:dev", filepath.Join(t.TempDir(), "missing")).Write(filepath.Join(t.TempDir(), "image.tar"))
	require.ErrorContains(t, err, "read the binary of image registry-lb:dev")
}
