// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	patience = 10 * time.Second
	pause    = 5 * time.Millisecond
)

// noTicks is the real clock without tickers: what a source sees with it, it was told by the file system.
type noTicks struct{ clock.RealClock }

func (noTicks) NewTicker(time.Duration) clock.Ticker { return silentTicker{} }

type silentTicker struct{}

func (silentTicker) C() <-chan time.Time { return nil }
func (silentTicker) Stop()               {}

// noEvents takes the file system events away from a source.
func noEvents(s *fileSource) {
	s.newWatcher = func() (*fsnotify.Watcher, error) { return nil, errors.New("too many open files") }
}

func newTestFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "members")
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func (f *follower) shows(t *testing.T, addrs ...string) {
	t.Helper()
	want := make([]string, 0, len(addrs))
	for _, addr := range addrs {
		want = append(want, addr+" ready "+addr)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Equal(c, want, f.last()) }, patience, pause)
}

func TestFileIsFollowedByEvents(t *testing.T) {
	for _, tc := range []struct {
		sentence string
		change   func(t *testing.T, path string)
	}{
		{"a file that is written in place", func(t *testing.T, path string) {
			t.Helper()
			write(t, path, "b:2\n")
		}},
		{"a file that another one is renamed over", func(t *testing.T, path string) {
			t.Helper()
			write(t, path+".tmp", "b:2\n")
			require.NoError(t, os.Rename(path+".tmp", path))
		}},
		{"a file that is moved away and written anew, as editors do", func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.Rename(path, path+"~"))
			write(t, path, "b:2\n")
		}},
		{"a file that is deleted and written anew", func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.Remove(path))
			write(t, path, "b:2\n")
		}},
		{"a file that becomes a symbolic link", func(t *testing.T, path string) {
			t.Helper()
			write(t, path+".other", "b:2\n")
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Symlink(path+".other", path))
		}},
		{"a file that has an address appended", func(t *testing.T, path string) {
			t.Helper()
			write(t, path, "# the old one is gone\n")
			file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = file.WriteString("b:2\n")
			require.NoError(t, errors.Join(err, file.Close()))
		}},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			path := newTestFile(t)
			write(t, path, "a:1\n")
			f := follow(t, newFileSource(path, Options{Logger: zap.NewNop(), Clock: noTicks{}}))
			f.shows(t, "a:1")
			tc.change(t, path)
			f.shows(t, "b:2")
			require.NoError(t, f.stop())
		})
	}
}

// A Kubernetes volume holds members -> ..data/members and ..data -> ..some_time; an update swaps ..data.
func TestFileInAConfigMapVolumeIsFollowed(t *testing.T) {
	dir := t.TempDir()
	version := func(name, content string) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		write(t, filepath.Join(dir, name, "members"), content)
		require.NoError(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	version("..one", "a:1\n")
	path := filepath.Join(dir, "members")
	require.NoError(t, os.Symlink("..data/members", path))

	f := follow(t, newFileSource(path, Options{Logger: zap.NewNop(), Clock: noTicks{}}))
	f.shows(t, "a:1")
	version("..two", "b:2\n")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "..one")))
	f.shows(t, "b:2")
	version("..three", "c:3\n")
	f.shows(t, "c:3")
	require.NoError(t, f.stop())
}

func TestFileIsReadNowAndThenWhereEventsDoNotCome(t *testing.T) {
	t.Run("without file system events at all", func(t *testing.T) {
		path := newTestFile(t)
		write(t, path, "a:1\n")
		logger, logs := newTestLogger()
		s := newFileSource(path, Options{Logger: logger, Clock: clock.RealClock{}})
		noEvents(s)
		f := follow(t, s)
		f.shows(t, "a:1")
		write(t, path, "b:2\n")
		f.shows(t, "b:2")
		require.NoError(t, f.stop())
		require.Equal(t, 1, logs.FilterMessageSnippet("no file system events").Len())
	})
	t.Run("when the target of a symbolic link in another directory changes", func(t *testing.T) {
		target, path := newTestFile(t), newTestFile(t)
		write(t, target, "a:1\n")
		require.NoError(t, os.Symlink(target, path))
		f := follow(t, newFileSource(path, Options{Logger: zap.NewNop(), Clock: clock.RealClock{}}))
		f.shows(t, "a:1")
		write(t, target, "b:2\n")
		f.shows(t, "b:2")
		require.NoError(t, f.stop())
	})
}

func TestADirectoryThatComesLateIsFollowed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(dir, "members")
	time0 := clocktesting.NewFakeClock(time.Now())
	source := newFileSource(path, Options{Logger: zap.NewNop(), Clock: time0})
	f := follow(t, source)
	create := func(content string) {
		require.NoError(t, os.Mkdir(dir, 0o700))
		write(t, path, content)
	}
	// stepUntil lets time pass in small steps, so that the source meets each of its timers.
	stepUntil := func(condition func() bool) {
		require.Eventually(t, func() bool { time0.Step(10 * time.Millisecond); return condition() }, patience, time.Millisecond)
	}
	shows := func(want string) func() bool {
		return func() bool { last := f.last(); return len(last) == 1 && last[0] == want }
	}
	stepUntil(func() bool { return source.Err() != nil })
	require.EqualError(t, source.Err(), "file "+path+" does not exist")
	require.Empty(t, f.all(), "nothing was read yet")

	create("a:1\n")
	stepUntil(shows("a:1 ready a:1"))
	require.NoError(t, source.Err())

	require.NoError(t, os.RemoveAll(dir))
	stepUntil(func() bool { return source.Err() != nil })
	require.Len(t, f.all(), 1, "what cannot be read changes nothing")
	create("b:2\n")
	stepUntil(shows("b:2 ready b:2"))

	// The new directory gives events: the debouncer is set though no time passes and so no poll is due.
	waiters := func(n int) func() bool { return func() bool { return time0.Waiters() == n } }
	stepUntil(waiters(1)) // the ticker: earlier events are dealt with
	write(t, path, "c:3\n")
	require.Eventually(t, waiters(2), patience, pause)
	stepUntil(shows("c:3 ready c:3"))
	require.NoError(t, f.stop())
}

func TestAFileThatCannotBeReadKeepsTheLastMembers(t *testing.T) {
	for _, tc := range []struct {
		sentence string
		damage   func(t *testing.T, path string)
		want     string // PATH stands for the path
	}{
		{"a file that is deleted", func(*testing.T, string) {}, "file PATH does not exist"},
		{"a directory in its place", func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.Mkdir(path, 0o700))
		},
			"file PATH is not a regular file"},
		{"a named pipe in its place, which would block", func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, syscall.Mkfifo(path, 0o600))
		},
			"file PATH is not a regular file"},
		{"a symbolic link to itself in its place", func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.Symlink(path, path))
		},
			"file PATH cannot be read: too many levels of symbolic links"},
		{"a file that is too large", func(t *testing.T, path string) {
			t.Helper()
			write(t, path, "b:2\n")
			require.NoError(t, os.Truncate(path, maxFileSize+1))
		}, "file PATH is larger than 1048576 bytes"},
		{"a file with a bad line", func(t *testing.T, path string) {
			t.Helper()
			write(t, path, "b:2\n\nc\n")
		},
			`file is not taken: PATH:3: "c" has no port`},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			path := newTestFile(t)
			write(t, path, "a:1\n")
			logger, logs := newTestLogger()
			source := newFileSource(path, Options{Logger: logger, Clock: clock.RealClock{}})
			f := follow(t, source)
			f.shows(t, "a:1")

			require.NoError(t, os.Remove(path))
			tc.damage(t, path)
			want := strings.ReplaceAll(tc.want, "PATH", path)
			require.EventuallyWithT(t, func(c *assert.CollectT) { require.EqualError(c, source.Err(), want) }, patience, pause)
			require.Len(t, f.all(), 1)
			require.Len(t, logs.Filter(func(e observer.LoggedEntry) bool { return e.ContextMap()["error"] == want }).All(), 1, "logged once")

			require.NoError(t, os.RemoveAll(path))
			write(t, path, "b:2\n")
			f.shows(t, "b:2")
			require.NoError(t, source.Err())
			require.NoError(t, f.stop())
		})
	}
}

func TestAFileWithABadLineAtTheStartGivesNoMembers(t *testing.T) {
	path := newTestFile(t)
	write(t, path, "a:1\nb\n")
	source := newFileSource(path, Options{Logger: zap.NewNop(), Clock: noTicks{}})
	f := follow(t, source)
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.ErrorContains(c, source.Err(), path+`:2: "b" has no port`) }, patience, pause)
	require.Empty(t, f.all())
	write(t, path, "a:1\nb:2\n")
	f.shows(t, "a:1", "b:2")
	require.NoError(t, f.stop())
}

func TestAnEmptyFile(t *testing.T) {
	t.Run("is an empty set at the start", func(t *testing.T) {
		path := newTestFile(t)
		write(t, path, "")
		f := follow(t, newFileSource(path, Options{Logger: zap.NewNop(), Clock: noTicks{}}))
		f.shows(t)
		require.NoError(t, f.stop())
		require.Len(t, f.all(), 1)
	})
	t.Run("is an empty set at once if a comment says that it is meant", func(t *testing.T) {
		path := newTestFile(t)
		write(t, path, "a:1\n")
		f := follow(t, newFileSource(path, Options{Logger: zap.NewNop(), Clock: noTicks{}}))
		f.shows(t, "a:1")
		write(t, path, "# none\n")
		f.shows(t)
		require.NoError(t, f.stop())
	})
	t.Run("is an empty set after a while if it has not a single byte", func(t *testing.T) {
		path := newTestFile(t)
		write(t, path, "a:1\n")
		time0 := clocktesting.NewFakeClock(time.Now())
		f := follow(t, newFileSource(path, Options{Logger: zap.NewNop(), Clock: time0}))
		f.shows(t, "a:1")
		require.NoError(t, os.Truncate(path, 0))
		began := time0.Now()
		require.Eventually(t, func() bool {
			time0.Step(10 * time.Millisecond)
			return len(f.last()) == 0
		}, patience, time.Millisecond)
		require.GreaterOrEqual(t, time0.Since(began), emptyConfirm)
		require.NoError(t, f.stop())
	})
}

func TestATornWriteDoesNotShow(t *testing.T) {
	for _, tc := range []struct {
		sentence string
		passes   time.Duration // between truncation and the rest
		torn     string
	}{
		{"a file that is truncated and written at once", 0, ""},
		{"a file that is truncated and written in two parts within the quiet period", fileQuiet / 2, "a:1\n"},
		{"a file that is truncated, and written when the quiet period is long over", 4 * fileQuiet, ""},
		{"a file of which half a line is there when the quiet period is long over", 4 * fileQuiet, "a:1\nb:"},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			path := newTestFile(t)
			write(t, path, "a:1\nb:2\n")
			time0 := clocktesting.NewFakeClock(time.Now())
			f := follow(t, newFileSource(path, Options{Logger: zap.NewNop(), Clock: time0}))
			f.shows(t, "a:1", "b:2")

			file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
			require.NoError(t, err)
			_, err = file.WriteString(tc.torn)
			require.NoError(t, err)
			for passed := time.Duration(0); passed < tc.passes; passed += 5 * time.Millisecond {
				time0.Step(5 * time.Millisecond)
			}
			_, err = file.WriteString("a:1\nb:2\nc:3\n"[len(tc.torn):])
			require.NoError(t, errors.Join(err, file.Close()))

			require.Eventually(t, func() bool {
				time0.Step(5 * time.Millisecond)
				return len(f.last()) == 3
			}, patience, time.Millisecond)
			require.Len(t, f.all(), 2, "from two members to three with nothing in between")
			require.NoError(t, f.stop())
		})
	}
}

func TestAnUnchangedFileIsNotSentAgain(t *testing.T) {
	path := newTestFile(t)
	write(t, path, "a:1\nb:2\n")
	f := follow(t, newFileSource(path, Options{Logger: zap.NewNop(), Clock: noTicks{}}))
	f.shows(t, "a:1", "b:2")
	write(t, path, "# the same, in another order\nb:2\na:1\nb:2\n")
	write(t, path+".unrelated", "x")
	write(t, path, "b:2\na:1\n")
	write(t, path, "c:3\n")
	f.shows(t, "c:3")
	require.NoError(t, f.stop())
	require.Len(t, f.all(), 2)
}
