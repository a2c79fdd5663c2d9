// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
)

// Bounds for clients that are slow, or want to be.
const (
	readTimeout    = 10 * time.Second
	writeTimeout   = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	// stopTimeout bounds how long answers under way are waited for at the end.
	stopTimeout = 5 * time.Second
)

// Serve answers requests on listener with h until ctx ends; it then lets answers under way finish, for a few seconds,
// and returns nil. It closes listener in any case. An error means that it had to stop on its own.
func Serve(ctx context.Context, listener net.Listener, h http.Handler, log *zap.Logger) error {
	errorLog, err := zap.NewStdLogAt(log, zap.DebugLevel)
	if err != nil {
		_ = listener.Close()
		return fmt.Errorf("admin: %w", err)
	}
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          errorLog,
	}
	stopped := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(stopped)
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if err := server.Shutdown(stop); err != nil {
			log.Warn("admin: cut requests that did not finish in time", zap.Error(err))
			_ = server.Close()
		}
	})
	err = server.Serve(listener)
	if unhook() {
		return fmt.Errorf("admin: serve on %s: %w", listener.Addr(), err)
	}
	<-stopped
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin: serve on %s: %w", listener.Addr(), err)
	}
	return nil
}
