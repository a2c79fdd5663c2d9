// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	// fileQuiet is how long the directory must be at rest before the file is read: a file that is truncated and
	// written in place is whole again by then, unless its writer is very slow.
	fileQuiet = 50 * time.Millisecond
	// fileLimit is how long a change waits at most; it keeps an edit below 200 ms in a directory that is never at rest.
	fileLimit = 150 * time.Millisecond
	// filePoll is how often the file is read without being asked: events do not come from network file systems, from
	// the target of a symbolic link in another directory, or when the limits for inotify are used up. A read of a small
	// file costs microseconds, and a second is as long as a probe takes to see a change of a member.
	filePoll = time.Second
	// emptyConfirm is how long a file of no bytes, that had members, must stay so before it is believed: it is what a
	// file looks like between truncation and writing, and taking it for the truth would drop every member.
	emptyConfirm = filePoll / 2
	// maxFileSize bounds what is read: 10,000 long lines.
	maxFileSize = 1 << 20
)

// fileSource follows a file by events of its directory, so that renaming over it, deleting and creating it, and the
// swap of the symbolic link ..data in a Kubernetes volume are seen, and by reading it now and then.
type fileSource struct {
	path   string
	clock  clock.WithTicker
	logger *zap.Logger
	fault  *fault

	newWatcher func() (*fsnotify.Watcher, error)
}

func newFileSource(path string, o Options) *fileSource {
	s := &fileSource{path: path, clock: o.Clock, newWatcher: fsnotify.NewWatcher}
	s.logger = o.Logger.With(zap.String("source", s.Describe()))
	s.fault = newFault(s.logger)
	return s
}

func (s *fileSource) Describe() string { return "file " + s.path }

func (s *fileSource) Err() error { return s.fault.get() }

func (s *fileSource) Run(ctx context.Context, update func([]shard.Member)) error {
	dir := filepath.Dir(s.path)
	var events chan fsnotify.Event // nil, and so silent, without a watcher
	var failures chan error
	watchDir := func() {}
	if watcher, err := s.newWatcher(); err != nil {
		s.logger.Warn("no file system events, the file is read every second instead", zap.Error(err))
	} else {
		defer func() { _ = watcher.Close() }()
		events, failures = watcher.Events, watcher.Errors
		// Adding what is there already changes nothing, and adds a directory that was created anew. Without a directory
		// there is no file either, and reading that says so.
		watchDir = func() { _ = watcher.Add(dir) }
	}
	ticker := s.clock.NewTicker(filePoll)
	defer ticker.Stop()
	burst := newDebouncer(s.clock, fileQuiet, fileLimit)
	defer burst.stop()

	watchDir()
	reader := fileReader{source: s, out: publisher{update: update}}
	reader.read()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-events:
			burst.signal()
		case err := <-failures: // events may have been lost
			s.logger.Debug("file system events", zap.Error(err))
			burst.signal()
		case <-ticker.C():
			watchDir()
			burst.signal()
		case <-burst.C():
			burst.done()
			reader.read()
		}
	}
}

// fileReader is the state of one Run.
type fileReader struct {
	source     *fileSource
	out        publisher
	emptySince time.Time // when the file was first seen without a byte; zero if it has some
}

// read takes the file as a whole or not at all: a file with a bad line is likely to be half an edit, and the members
// that are missing in it must not lose their keys over that.
func (r *fileReader) read() {
	s := r.source
	content, err := readSmallFile(s.path)
	if err != nil {
		s.fault.set(err.Error(), err)
		return
	}
	if !r.believable(content) {
		return
	}
	addrs, err := parseHostList(s.path, content)
	if err != nil {
		err = fmt.Errorf("file is not taken: %w", err)
		s.fault.set(err.Error(), err)
		return
	}
	s.fault.clear()
	members := membersAt(addrs)
	if r.out.publish(members) {
		s.logger.Debug("members read", zap.Int("members", len(members)))
	}
}

// believable is false for a file without a byte that may be about to be written.
func (r *fileReader) believable(content []byte) bool {
	if len(content) > 0 || len(r.out.last) == 0 {
		r.emptySince = time.Time{}
		return true
	}
	now := r.source.clock.Now()
	if r.emptySince.IsZero() {
		r.emptySince = now
	}
	return now.Sub(r.emptySince) >= emptyConfirm
}

// readSmallFile refuses what is not a regular file before opening it: opening a named pipe would block.
func readSmallFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("file %s does not exist", path)
	case err != nil:
		return nil, fmt.Errorf("file %s cannot be read: %w", path, withoutPath(err))
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("file %s is not a regular file", path)
	}
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("file %s cannot be read: %w", path, withoutPath(err))
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("file %s cannot be read: %w", path, withoutPath(err))
	case len(content) > maxFileSize:
		return nil, fmt.Errorf("file %s is larger than %d bytes", path, maxFileSize)
	}
	return content, nil
}

// withoutPath leaves out the path that errors of package os repeat.
func withoutPath(err error) error {
	var fault *fs.PathError
	if errors.As(err, &fault) {
		return fault.Err
	}
	return err
}
