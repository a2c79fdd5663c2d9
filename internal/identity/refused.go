// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"errors"
	"io"
	"net"

	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"
)

// LogRefused returns server credentials that write one line for each connection that is refused, with the reason: gRPC
// has none above its level Info. Connections that are closed without a word, as by checks of a load balancer, are not
// worth one.
func LogRefused(creds credentials.TransportCredentials, log *zap.Logger) credentials.TransportCredentials {
	return logged{creds, log}
}

type logged struct {
	credentials.TransportCredentials
	log *zap.Logger
}

// ServerHandshake implements credentials.TransportCredentials.
func (l logged) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := l.TransportCredentials.ServerHandshake(raw)
	if err != nil && !errors.Is(err, io.EOF) {
		l.log.Warn("a connection was refused", zap.Stringer("from", raw.RemoteAddr()), zap.Error(err))
	}
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (l logged) Clone() credentials.TransportCredentials {
	return logged{l.TransportCredentials.Clone(), l.log}
}
