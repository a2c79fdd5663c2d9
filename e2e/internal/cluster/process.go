// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// place is where a process runs.
type place struct {
	// cgroup has it and all that it starts.
	cgroup string
	// enter is the command that takes it into its namespaces.
	enter []string
}

func control() place {
	return place{cgroup: prefix + "/control", enter: []string{"nsenter", "--net=" + netnsPath(controlNetns)}}
}

func (n Node) place() (place, error) {
	pid, err := os.ReadFile(n.anchor())
	if err != nil {
		return place{}, fmt.Errorf("find %s: %w", n.Name(), err)
	}
	return place{
		cgroup: n.cgroup(),
		enter:  []string{"nsenter", "--target=" + strings.TrimSpace(string(pid)), "--mount", "--net", "--uts"},
	}, nil
}

// joinCgroup puts a shell into a group and then becomes the command. Only the hierarchies that show processes are used:
// the kubelet and runc put containers into the others themselves.
const joinCgroup = `for root in "$@"; do shift; [ "$root" = -- ] && break; echo $$ > "$root/cgroup.procs" || exit 1; done; exec "$@"`

func (p place) command(args ...string) *exec.Cmd {
	all := []string{"-c", joinCgroup, "sh"}
	for _, root := range hierarchies() {
		if filepath.Base(root) == "cpuset" {
			continue
		}
		all = append(all, filepath.Join(root, p.cgroup))
	}
	all = append(all, "--")
	all = append(append(all, p.enter...), args...)
	return exec.Command("sh", all...) //nolint:noctx // it outlives who starts it
}

// start starts a part of the cluster under that name. It goes on when the caller ends.
func (p place) start(name string, args ...string) error {
	if err := os.MkdirAll(Logs(), 0o755); err != nil {
		return fmt.Errorf("make the folder of the logs: %w", err)
	}
	log, err := os.OpenFile(logOf(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }()
	command := p.command(args...)
	command.Stdout, command.Stderr = log, log
	command.Dir = "/"
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	if err := os.WriteFile(pidOf(name), []byte(strconv.Itoa(command.Process.Pid)), 0o644); err != nil {
		return fmt.Errorf("note the process of %s: %w", name, err)
	}
	// It is not waited for, but must not stay a zombie as long as the caller lives.
	go func() { _ = command.Wait() }()
	return nil
}

func logOf(name string) string { return filepath.Join(Logs(), name+".log") }
func pidOf(name string) string { return filepath.Join(Dir, name+".pid") }

// signal sends a signal to a part. One that is not there got it.
func signal(name string, sig syscall.Signal) error {
	text, err := os.ReadFile(pidOf(name))
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s: %w", name, err)
	}
	return nil
}

// gone waits until the process of a part is gone.
func gone(ctx context.Context, name string) error {
	for alive(name) {
		if err := pause(ctx); err != nil {
			return fmt.Errorf("%s does not end: %w", name, err)
		}
	}
	return nil
}

func alive(name string) bool {
	text, err := os.ReadFile(pidOf(name))
	if err != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + string(text) + "/stat")
	// A zombie is gone, too: its parent may be slow.
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// tail is the end of a part's log, for errors.
func tail(name string) string {
	text, err := os.ReadFile(logOf(name))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

// run runs a command of the machine itself to its end.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Command returns a command that runs in the network namespace of the control plane, with the folder of the caller and
// the kubeconfig of an administrator. It ends with ctx, by SIGTERM first.
func Command(ctx context.Context, args ...string) *exec.Cmd {
	args = append([]string{"--net=" + netnsPath(controlNetns)}, args...)
	command := exec.CommandContext(ctx, "nsenter", args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+Kubeconfig())
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 10 * time.Second
	return command
}
