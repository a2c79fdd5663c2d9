// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is another process. It does not survive the test, however that ends.
type process struct {
	cmd *exec.Cmd
	// exited is closed when it has ended.
	exited chan struct{}
}

// startProcess starts command in a process group of its own, and ends it with the test. What it writes goes to the end of
// the file log.
func startProcess(tb testing.TB, command *exec.Cmd, log string, env ...string) *process {
	tb.Helper()
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(tb, err)
	defer func() { _ = file.Close() }()
	command.Stderr = file
	if command.Stdout == nil {
		command.Stdout = file
	}
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GOMAXPROCS=2"}, env...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(tb, command.Start())
	p := &process{cmd: command, exited: make(chan struct{})}
	go func() {
		_ = command.Wait() // most are killed
		close(p.exited)
	}()
	tb.Cleanup(p.kill)
	return p
}

// signal sends s to the whole group. A process that is gone already takes no notice.
func (p *process) signal(s syscall.Signal) {
	select {
	case <-p.exited: // its number may be another's by now
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

// kill ends the process at once, stopped or not, and waits for that.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// terminate asks the process to end in good order, and kills it if it has not done so in time.
func (p *process) terminate(within time.Duration) {
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		p.kill()
	}
}

// buildLB builds registry-lb.
func buildLB(tb testing.TB) (path string) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "registry-lb")
	build := exec.CommandContext(tb.Context(), "go", "build", "-o", path, "./cmd/registry-lb")
	build.Dir = filepath.Join("..", "..")
	out, err := build.CombinedOutput()
	require.NoError(tb, err, "%s", out)
	return path
}

// pause waits for d, and is false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
