// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchies returns where the hierarchies of control groups are mounted: one each with version 1, one for all with
// version 2.
func hierarchies() []string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	var found []string
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") && strings.HasPrefix(fields[1], cgroupRoot) {
			found = append(found, fields[1])
		}
	}
	return found
}

// makeCgroup makes the group in each hierarchy.
func makeCgroup(group string) error {
	for _, root := range hierarchies() {
		at := root
		for part := range strings.SplitSeq(group, "/") {
			parent := at
			at = filepath.Join(at, part)
			if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("make a control group: %w", err)
			}
			// With version 1, a new cpuset allows nothing; with version 2, a new group has no controllers.
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				if err := inherit(parent, at, file); err != nil {
					return err
				}
			}
			if controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers")); err == nil && root == cgroupRoot {
				for controller := range strings.FieldsSeq(string(controllers)) {
					// Those that can't be had in a group are not needed in it.
					_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
				}
			}
		}
	}
	return nil
}

// inherit copies a setting of the parent where the hierarchy has it and the child has none.
func inherit(parent, child, file string) error {
	have, err := os.ReadFile(filepath.Join(child, file))
	if err != nil || strings.TrimSpace(string(have)) != "" {
		return nil //nolint:nilerr // a hierarchy without that setting
	}
	value, err := os.ReadFile(filepath.Join(parent, file))
	if err != nil {
		return fmt.Errorf("read the setting of a control group: %w", err)
	}
	if err := os.WriteFile(filepath.Join(child, file), value, 0o644); err != nil {
		return fmt.Errorf("write the setting of a control group: %w", err)
	}
	return nil
}

// processes returns those in the group and below, in any hierarchy.
func processes(group string) []int {
	var found []int
	for _, root := range hierarchies() {
		_ = filepath.WalkDir(filepath.Join(root, group), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil //nolint:nilerr // gone meanwhile
			}
			text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			if err != nil {
				return nil //nolint:nilerr // gone meanwhile
			}
			for field := range strings.FieldsSeq(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil && pid != 0 {
					found = append(found, pid)
				}
			}
			return nil
		})
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// killCgroup kills all processes of the group and below, and waits till they are gone.
func killCgroup(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	thaw(group)
	for {
		left := processes(group)
		if len(left) == 0 {
			return nil
		}
		for _, pid := range left {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("processes do not end: %v: %w", left, err)
		}
	}
}

// thaw lets frozen processes go on: they can't die before.
func thaw(group string) {
	for _, root := range hierarchies() {
		_ = filepath.WalkDir(filepath.Join(root, group), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				switch d.Name() {
				case "freezer.state":
					_ = os.WriteFile(path, []byte("THAWED"), 0o644)
				case "cgroup.freeze":
					_ = os.WriteFile(path, []byte("0"), 0o644)
				}
			}
			return nil
		})
	}
}

// removeCgroup removes the group and those below it, which have no processes any more.
func removeCgroup(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, root := range hierarchies() {
		var groups []string
		_ = filepath.WalkDir(filepath.Join(root, group), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
		slices.Reverse(groups)
		for _, path := range groups {
			// A group is busy for a moment after its last process has ended.
			for {
				err := syscall.Rmdir(path)
				if err == nil || errors.Is(err, syscall.ENOENT) {
					break
				}
				if pause(ctx) != nil {
					return fmt.Errorf("remove control group %s: %w", path, err)
				}
			}
		}
	}
	return nil
}

// pause waits a little before something is looked at again.
func pause(ctx context.Context) error {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
