// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	sdkregistry "github.com/networkservicemesh/sdk/pkg/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/common/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/internal/app"
	"github.com/networkservicemesh/registry-lb/internal/config"
	"github.com/networkservicemesh/registry-lb/internal/loopback"
	"github.com/networkservicemesh/registry-lb/pkg/endpoints"
	"github.com/networkservicemesh/registry-lb/pkg/proxy"
)

const (
	// patience is how long tests wait for what has to come.
	patience = 30 * time.Second
	tick     = 5 * time.Millisecond
)

// slowness is an element of a registry that holds up calls about the NSE called "slow".
type slowness struct {
	registry.NetworkServiceEndpointRegistryServer
	began, release chan struct{}
}

func (s *slowness) Register(ctx context.Context, nse *registry.NetworkServiceEndpoint) (*registry.NetworkServiceEndpoint, error) {
	if nse.GetName() == "slow" {
		s.began <- struct{}{}
		select {
		case <-s.release:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	return s.NetworkServiceEndpointRegistryServer.Register(ctx, nse)
}

// startRegistry starts a registry and returns its address.
func startRegistry(t *testing.T) (string, *slowness) {
	t.Helper()
	slow := &slowness{memory.NewNetworkServiceEndpointRegistryServer(), make(chan struct{}, 1), make(chan struct{})}
	s := grpc.NewServer()
	sdkregistry.NewServer(memory.NewNetworkServiceRegistryServer(), slow).Register(s)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String(), slow
}

// running is the application while it runs.
type running struct {
	cfg  *config.Config
	file string
	// terminate is what SIGTERM does, ended how Run ended.
	terminate context.CancelFunc
	ended     chan error
	http      *http.Client
	cc        *grpc.ClientConn
}

// configFor is a configuration with the members in a file.
func configFor(t *testing.T, members ...string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "members.txt")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(members, "\n")+"\n"), 0o600))
	spec, err := endpoints.ParseSpec("file://" + file)
	require.NoError(t, err)
	return &config.Config{
		ListenOn:         config.ListenAddrs{{Network: "tcp", Address: loopback.Address()}},
		AdminListenOn:    config.ListenAddr{Network: "tcp", Address: loopback.Address()},
		Backends:         config.Backends{Spec: spec},
		Store:            "shared",
		TLS:              config.TLSInsecure,
		NoBackendWait:    time.Second,
		MaxTokenLifetime: 10 * time.Minute,
		ProbeInterval:    100 * time.Millisecond,
		ProbeTimeout:     patience,
		EmptyGrace:       0,
		DrainDelay:       300 * time.Millisecond,
		DrainTimeout:     patience,
	}
}

// start runs the application until the end of the test at the latest.
func start(t *testing.T, cfg *config.Config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cfg: cfg, file: strings.TrimPrefix(cfg.Backends.String(), "file://"), terminate: cancel, ended: make(chan error, 1)}
	log := zaptest.NewLogger(t)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		r.ended <- app.Run(ctx, cfg, log)
	}()
	transport := &http.Transport{DisableKeepAlives: true}
	r.http = &http.Client{Transport: transport, Timeout: patience}
	t.Cleanup(func() { cancel(); <-finished })
	listen := cfg.ListenOn[0]
	target := listen.Address
	if listen.Network == "unix" {
		target = "unix:" + target
	}
	cc, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = cc.Close() })
	r.cc = cc
	return r
}

// get returns the code and the body of an admin page; code 0 while it can't be had.
func (r *running) get(t *testing.T, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.cfg.AdminListenOn.Address+path, http.NoBody)
	require.NoError(t, err)
	resp, err := r.http.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func (r *running) awaitReady(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { code, _ := r.get(t, "/readyz"); return code == http.StatusOK }, patience, tick)
}

// health is what gRPC's health service says of a service.
func (r *running) health(t *testing.T, service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := grpc_health_v1.NewHealthClient(r.cc).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service}, grpc.WaitForReady(true))
	require.NoError(t, err)
	return resp.GetStatus()
}

// states are the members that the admin API shows, with their states.
func (r *running) states(t *testing.T) map[string]string {
	t.Helper()
	_, body := r.get(t, "/api/v1/members")
	var page struct {
		Members []struct{ Name, State string }
	}
	if json.Unmarshal([]byte(body), &page) != nil {
		return nil
	}
	states := make(map[string]string)
	for _, m := range page.Members {
		states[m.Name] = m.State
	}
	return states
}

func await[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		require.FailNow(t, "waited in vain", what)
		panic("unreachable")
	}
}

func (r *running) register(ctx context.Context, name string) error {
	_, err := registry.NewNetworkServiceEndpointRegistryClient(r.cc).Register(ctx, &registry.NetworkServiceEndpoint{Name: name}, grpc.WaitForReady(true))
	return err
}

// TestLifeOfTheApplication goes from the start to the drain, with a watch and a call in flight when it is told to end.
func TestLifeOfTheApplication(t *testing.T) {
	t.Parallel()
	addr, slow := startRegistry(t)
	r := start(t, configFor(t, addr))
	r.awaitReady(t)
	services := append(proxy.ServiceNames(), "")
	for _, service := range services {
		require.Eventually(t, func() bool { return r.health(t, service) == grpc_health_v1.HealthCheckResponse_SERVING }, patience, tick)
	}
	before := time.Now()
	require.NoError(t, r.register(t.Context(), "name"))
	code, body := r.get(t, "/api/v1/locate?nse=name")
	require.Equal(t, http.StatusOK, code)
	var location struct {
		Key, Member, Reason string
		Since, Expires      time.Time
	}
	require.NoError(t, json.Unmarshal([]byte(body), &location))
	require.Equal(t, []string{"name", addr, "holder"}, []string{location.Key, location.Member, location.Reason})
	require.WithinRange(t, location.Since, before.Truncate(time.Second), time.Now())
	require.True(t, location.Expires.After(before))
	code, body = r.get(t, "/api/v1/status")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `"ready":true`)
	code, body = r.get(t, "/metrics")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "registry_lb_keys 1")

	watch, err := registry.NewNetworkServiceEndpointRegistryClient(r.cc).Find(t.Context(), &registry.NetworkServiceEndpointQuery{
		NetworkServiceEndpoint: new(registry.NetworkServiceEndpoint), Watch: true,
	})
	require.NoError(t, err)
	_, err = watch.Recv()
	require.NoError(t, err)
	inFlight := make(chan error, 1)
	go func() { inFlight <- r.register(context.WithoutCancel(t.Context()), "slow") }()
	await(t, slow.began, "the call in flight")

	told := time.Now()
	r.terminate()
	require.Eventually(t, func() bool {
		code, body = r.get(t, "/readyz")
		return code == http.StatusServiceUnavailable
	}, patience, tick)
	require.Contains(t, body, "draining: registry-lb is about to stop")
	for _, service := range services {
		require.Equal(t, grpc_health_v1.HealthCheckResponse_NOT_SERVING, r.health(t, service))
	}
	require.NoError(t, r.register(t.Context(), "late"), "during the drain delay calls are still taken")

	_, err = watch.Recv()
	for err == nil {
		_, err = watch.Recv()
	}
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.GreaterOrEqual(t, time.Since(told), r.cfg.DrainDelay)
	require.Eventually(t, func() bool {
		_, err := registry.NewNetworkServiceEndpointRegistryClient(r.cc).Register(t.Context(), &registry.NetworkServiceEndpoint{Name: "too late"})
		return status.Code(err) == codes.Unavailable
	}, patience, tick, "after the drain delay no new calls are taken")
	require.Empty(t, r.ended, "a call is in flight")
	close(slow.release)
	require.NoError(t, await(t, inFlight, "the call in flight"))
	require.NoError(t, await(t, r.ended, "the end"))
	t.Logf("drained %v after it was told to end", time.Since(told).Round(time.Millisecond))
}

// TestDrainTimeout has a call that never ends: it is cut.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	addr, slow := startRegistry(t)
	cfg := configFor(t, addr)
	cfg.DrainDelay, cfg.DrainTimeout = 0, 200*time.Millisecond
	r := start(t, cfg)
	r.awaitReady(t)
	inFlight := make(chan error, 1)
	go func() { inFlight <- r.register(context.WithoutCancel(t.Context()), "slow") }()
	await(t, slow.began, "the call in flight")
	told := time.Now()
	r.terminate()
	require.NoError(t, await(t, r.ended, "the end"))
	require.GreaterOrEqual(t, time.Since(told), cfg.DrainTimeout)
	require.Less(t, time.Since(told), patience/2)
	require.Equal(t, codes.Unavailable, status.Code(await(t, inFlight, "the call in flight")))
}

func TestEndedBeforeItBegan(t *testing.T) {
	t.Parallel()
	cfg := configFor(t, "127.0.0.1:1")
	cfg.DrainDelay = 0
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, addr := range []*string{&cfg.AdminListenOn.Address, &cfg.ListenOn[0].Address} {
		*addr = loopback.Address()
	}
	err := app.Run(ctx, cfg, zaptest.NewLogger(t))
	if err != nil {
		require.ErrorContains(t, err, "canceled", "the only thing that can be wrong is that it may not listen any more")
	}
}

func TestEditsOfTheFileAreSeenSoon(t *testing.T) {
	t.Parallel()
	one, _ := startRegistry(t)
	two, _ := startRegistry(t)
	r := start(t, configFor(t, one))
	r.awaitReady(t)
	require.Equal(t, map[string]string{one: "live"}, r.states(t))
	for _, row := range []struct {
		members []string
		want    map[string]string
	}{
		{[]string{one, two}, map[string]string{one: "live", two: "live"}},
		{[]string{two}, map[string]string{one: "left", two: "live"}},
		{[]string{one, "# nobody else"}, map[string]string{one: "live", two: "left"}},
	} {
		edited := time.Now()
		require.NoError(t, os.WriteFile(r.file, []byte(strings.Join(row.members, "\n")+"\n"), 0o600))
		require.Eventually(t, func() bool {
			states := r.states(t)
			return len(states) == len(row.want) && fmt.Sprint(states) == fmt.Sprint(row.want)
		}, patience, tick)
		t.Logf("%v was visible after %v", row.members, time.Since(edited).Round(time.Millisecond))
	}
}

// TestWithoutMembers is ready, lest who scaled to 0 meets a refused connection instead of the reason.
func TestWithoutMembers(t *testing.T) {
	t.Parallel()
	cfg := configFor(t)
	r := start(t, cfg)
	r.awaitReady(t)
	err := r.register(t.Context(), "name")
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "no ready member in")
}

// TestMembersThatCanNotBeRead is not ready and says why.
func TestMembersThatCanNotBeRead(t *testing.T) {
	t.Parallel()
	cfg := configFor(t)
	file := strings.TrimPrefix(cfg.Backends.String(), "file://")
	require.NoError(t, os.Remove(file))
	r := start(t, cfg)
	require.Eventually(t, func() bool {
		code, body := r.get(t, "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "members are not known yet") && strings.Contains(body, file)
	}, patience, tick)
	for _, service := range append(proxy.ServiceNames(), "") {
		require.Equal(t, grpc_health_v1.HealthCheckResponse_NOT_SERVING, r.health(t, service))
	}
	addr, _ := startRegistry(t)
	require.NoError(t, os.WriteFile(file, []byte(addr+"\n"), 0o600))
	r.awaitReady(t)
	require.NoError(t, r.register(t.Context(), "name"))
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	addr, _ := startRegistry(t)
	cfg := configFor(t, addr)
	socket := filepath.Join(t.TempDir(), "new", "registry.sock")
	cfg.ListenOn = slices.Insert(cfg.ListenOn, 0, config.ListenAddr{Network: "unix", Address: socket})
	cfg.DrainDelay = 0
	r := start(t, cfg)
	r.awaitReady(t)
	require.NoError(t, r.register(t.Context(), "name"))
	r.terminate()
	require.NoError(t, await(t, r.ended, "the end"))
	require.NoFileExists(t, socket)
}

func TestAddressesThatCanNotBeHad(t *testing.T) {
	t.Parallel()
	busy, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = busy.Close() })
	for _, row := range []struct {
		name   string
		change func(cfg *config.Config)
		want   string
	}{
		{"the clients' port is taken", func(cfg *config.Config) { cfg.ListenOn[0].Address = busy.Addr().String() }, `^NSM_LISTEN_ON: listen on tcp://127.0.0.1:\d+: .*address already in use$`},
		{"one of several is taken", func(cfg *config.Config) {
			cfg.ListenOn = append(cfg.ListenOn, config.ListenAddr{Network: "tcp", Address: busy.Addr().String()})
		}, `^NSM_LISTEN_ON: .*address already in use$`},
		{"the admin port is taken", func(cfg *config.Config) { cfg.AdminListenOn.Address = busy.Addr().String() }, `^NSM_ADMIN_LISTEN_ON: .*address already in use$`},
		{"the address is not one of this machine", func(cfg *config.Config) { cfg.ListenOn[0].Address = "192.0.2.1:5002" }, `^NSM_LISTEN_ON: listen on tcp://192.0.2.1:5002: .*cannot assign requested address$`},
		{"the socket can't be made", func(cfg *config.Config) {
			cfg.ListenOn[0] = config.ListenAddr{Network: "unix", Address: "/dev/null/registry.sock"}
		}, `^NSM_LISTEN_ON: listen on unix:///dev/null/registry.sock: .*not a directory$`},
		{"the store is none", func(cfg *config.Config) { cfg.Store = "none" }, `^set up the proxy: unknown store "none"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			cfg := configFor(t)
			row.change(cfg)
			began := time.Now()
			err := app.Run(t.Context(), cfg, zaptest.NewLogger(t))
			require.Error(t, err)
			require.Regexp(t, row.want, err.Error())
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, time.Since(began), patience/2)
			// What was opened before is closed again.
			if cfg.AdminListenOn.Address != busy.Addr().String() {
				l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", cfg.AdminListenOn.Address)
				require.NoError(t, err)
				require.NoError(t, l.Close())
			}
		})
	}
}
