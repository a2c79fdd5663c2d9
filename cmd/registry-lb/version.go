// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker in released builds: go build -ldflags "-X main.version=v1.2.3".
var version string

// describeBuild returns the version with what the Go toolchain noted about the build: the commit, whether it was
// changed, the toolchain and the platform. Without a version of its own it takes the module's.
func describeBuild(version string) string {
	var commit string
	if info, ok := debug.ReadBuildInfo(); ok {
		if version == "" {
			version = info.Main.Version
		}
		commit = describeCommit(info.Settings)
	}
	if version == "" {
		version = "(devel)"
	}
	return fmt.Sprintf("%s (%s%s, %s/%s)", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// describeCommit returns which commit was built, with a comma after it, or nothing where there was no repository.
func describeCommit(settings []debug.BuildSetting) string {
	commit, changed := "", ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			commit = "commit " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + changed + ", "
}
