// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"sync"

	"go.uber.org/zap"
)

// fault is the reason why a source cannot be read at the moment. A source is retried for ever, so a fault is logged
// when it comes, when it changes and when it goes, not at each attempt. Safe for concurrent use.
type fault struct {
	logger *zap.Logger // says which source it is

	mu   sync.Mutex
	kind string
	err  error
}

func newFault(logger *zap.Logger) *fault { return &fault{logger: logger} }

// set records err. Errors of one kind are one fault, of which the first text stays: texts may hold port numbers or
// times that differ at each attempt.
func (f *fault) set(kind string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil && f.kind == kind {
		return
	}
	f.kind, f.err = kind, err
	f.logger.Warn("source of members cannot be read, the last members stay", zap.Error(err))
}

// clear says that the source can be read.
func (f *fault) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		return
	}
	f.kind, f.err = "", nil
	f.logger.Info("source of members can be read again")
}

func (f *fault) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
