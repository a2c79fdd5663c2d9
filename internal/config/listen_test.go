// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAddressesReadBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addrs := rapid.SliceOfNDistinct(rapid.OneOf(
			rapid.StringMatching(`tcp://([a-z0-9.]{0,9}|\[::[1-9]\]):[1-9][0-9]{0,3}`),
			rapid.StringMatching(`unix:///[a-z0-9]{1,9}(/[a-z0-9]{1,9}){0,3}`),
		), 1, 5, rapid.ID[string]).Draw(t, "addresses")
		text := ""
		for i, a := range addrs {
			if i > 0 {
				text += ","
			}
			text += a
		}
		var l ListenAddrs
		require.NoError(t, l.UnmarshalText([]byte(text)))
		require.Equal(t, text, l.String())
	})
}

func TestAnyTextIsReadOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`(tcp|unix)://.{0,20}`)).Draw(t, "text")
		var l ListenAddrs
		if l.UnmarshalText([]byte(text)) == nil {
			require.NotEmpty(t, l)
			require.NoError(t, new(ListenAddrs).UnmarshalText([]byte(l.String())), "%q is read again", l.String())
		}
	})
}

func listen(t *testing.T, a ListenAddr) net.Listener {
	t.Helper()
	l, err := a.Listen(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestListenOnTCP(t *testing.T) {
	l := listen(t, ListenAddr{Network: "tcp", Address: "127.0.0.1:0"})
	_, err := ListenAddr{Network: "tcp", Address: l.Addr().String()}.Listen(t.Context())
	require.ErrorContains(t, err, "listen on tcp://"+l.Addr().String())
}

func TestListenOnSocket(t *testing.T) {
	t.Run("whose directory is missing", func(t *testing.T) {
		a := ListenAddr{Network: "unix", Address: filepath.Join(t.TempDir(), "a", "b", "s")}
		listen(t, a)
		info, err := os.Stat(a.Address)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o777), info.Mode().Perm(), "clients run as other users")
	})
	t.Run("that a dead process left behind", func(t *testing.T) {
		a := ListenAddr{Network: "unix", Address: filepath.Join(t.TempDir(), "s")}
		dead := listen(t, a)
		dead.(*net.UnixListener).SetUnlinkOnClose(false)
		require.NoError(t, dead.Close())
		require.FileExists(t, a.Address)
		listen(t, a)
	})
	t.Run("that another process serves", func(t *testing.T) {
		a := ListenAddr{Network: "unix", Address: filepath.Join(t.TempDir(), "s")}
		listen(t, a)
		_, err := a.Listen(t.Context())
		require.ErrorContains(t, err, "another process serves it")
		require.FileExists(t, a.Address, "the other process is not disturbed")
	})
	t.Run("where a file is that is no socket", func(t *testing.T) {
		a := ListenAddr{Network: "unix", Address: filepath.Join(t.TempDir(), "s")}
		require.NoError(t, os.WriteFile(a.Address, []byte("precious"), 0o600))
		_, err := a.Listen(t.Context())
		require.EqualError(t, err, "listen on "+a.String()+": something that is no socket is there")
		text, err := os.ReadFile(a.Address)
		require.NoError(t, err)
		require.Equal(t, "precious", string(text))
	})
}
