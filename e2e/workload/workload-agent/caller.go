// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"
)

// caller is the process at the other end of a connection, as the kernel knows it.
type caller struct {
	credentials.CommonAuthInfo
	pid int32
}

// AuthType implements credentials.AuthInfo.
func (caller) AuthType() string { return "peercred" }

// callers learns who connects to a unix socket. There is no handshake.
type callers struct{}

// ServerHandshake implements credentials.TransportCredentials.
func (callers) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, nil, errors.New("not a unix socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, nil, fmt.Errorf("look at a connection: %w", err)
	}
	var cred *unix.Ucred
	if controlErr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); controlErr != nil {
		return nil, nil, fmt.Errorf("look at a connection: %w", controlErr)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("ask who is connected: %w", err)
	}
	return conn, caller{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, cred.Pid}, nil
}

// ClientHandshake implements credentials.TransportCredentials. The agent connects to nobody.
func (callers) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("for servers only")
}

// Info implements credentials.TransportCredentials.
func (callers) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "peercred"}
}

// Clone implements credentials.TransportCredentials.
func (c callers) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials.
func (callers) OverrideServerName(string) error { return nil }
