// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// PauseImage is the image of what keeps the namespaces of a pod.
const PauseImage = "registry-lb-e2e/pause:dev"

// Image is what Dockerfile makes of a static binary: the binary alone in one layer, run as nobody in particular.
type Image struct {
	// Name is that of the image with its tag.
	Name string
	// Binary is the file; it has the same name in the image.
	Binary string
	// User is who runs it; empty means root.
	User string
	// Ports are the TCP ports on which it listens; they are for people to read.
	Ports []int
}

// RegistryLB is the image of registry-lb, as Dockerfile makes it of a binary.
func RegistryLB(name, binary string) Image {
	return Image{Name: name, Binary: binary, User: "65532:65532", Ports: []int{5002, 9090}}
}

func imageFile(image string) string { return filepath.Join(Dir, "images", filepath.Base(image)+".tar") }

// write writes the image into the folder of the cluster.
func (i Image) write() error {
	path := imageFile(i.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the folder of images: %w", err)
	}
	return i.Write(path)
}

// Write writes the image as an archive that a container runtime can import (docker load, ctr images import).
func (i Image) Write(archive string) error {
	binary, err := os.ReadFile(i.Binary)
	if err != nil {
		return fmt.Errorf("read the binary of image %s: %w", i.Name, err)
	}
	path := filepath.Base(i.Binary)
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	header := &tar.Header{Name: path, Mode: 0o755, Size: int64(len(binary)), ModTime: time.Unix(0, 0)}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("write the layer of image %s: %w", i.Name, err)
	}
	if _, err := w.Write(binary); err != nil {
		return fmt.Errorf("write the layer of image %s: %w", i.Name, err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write the layer of image %s: %w", i.Name, err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil })
	if err != nil {
		return fmt.Errorf("make the layer of image %s: %w", i.Name, err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return fmt.Errorf("make image %s: %w", i.Name, err)
	}
	if image, err = mutate.ConfigFile(image, i.config(image)); err != nil {
		return fmt.Errorf("configure image %s: %w", i.Name, err)
	}
	tag, err := name.NewTag(i.Name)
	if err != nil {
		return fmt.Errorf("name image %s: %w", i.Name, err)
	}
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		return fmt.Errorf("write image %s: %w", i.Name, err)
	}
	return nil
}

func (i Image) config(image v1.Image) *v1.ConfigFile {
	config := &v1.ConfigFile{}
	if before, err := image.ConfigFile(); err == nil {
		config = before.DeepCopy()
	}
	config.OS, config.Architecture = "linux", architecture
	config.Config.Entrypoint = []string{"/" + filepath.Base(i.Binary)}
	config.Config.User = i.User
	for _, port := range i.Ports {
		if config.Config.ExposedPorts == nil {
			config.Config.ExposedPorts = make(map[string]struct{})
		}
		config.Config.ExposedPorts[fmt.Sprintf("%d/tcp", port)] = struct{}{}
	}
	return config
}

// ImageName is the name under which the image of a binary is known to the nodes.
func ImageName(binary string) string { return "registry-lb-e2e/" + binary + ":dev" }
