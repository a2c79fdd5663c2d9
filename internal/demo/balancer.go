// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/networkservicemesh/registry-lb/internal/app"
	"github.com/networkservicemesh/registry-lb/internal/config"
	"github.com/networkservicemesh/registry-lb/pkg/endpoints"
)

const (
	// joinDelay is far shorter than the default: there is no other registry-lb here that has to see a new member too.
	joinDelay = 200 * time.Millisecond
	// drainTimeout bounds the end of registry-lb; its clients are gone by then.
	drainTimeout = time.Second
	// noBackendWait is the default.
	noBackendWait = 5 * time.Second

	// portAttempts is how often other ports are tried because a port was taken by somebody else.
	portAttempts = 5
	// changeTimeout bounds how long registry-lb may need to see a change of its members.
	changeTimeout = 10 * time.Second
	// changePoll is how often it is asked whether it has.
	changePoll = 20 * time.Millisecond
	// adminTimeout bounds one question to the admin server: if its port belongs to another process, that may be silent.
	adminTimeout = time.Second
)

// balancer is a real registry-lb that follows a file.
type balancer struct {
	front, admin string
	// dir has the file and nothing else.
	dir    string
	http   *http.Client
	cancel context.CancelFunc
	ended  chan struct{}
	// err is why it ended; to be read after ended is closed.
	err error
}

// startBalancer starts registry-lb for the registries at addrs and waits until it sends calls there.
func startBalancer(ctx context.Context, log *zap.Logger, addrs []string) (*balancer, error) {
	for attempt := 1; ; attempt++ {
		ports, err := freePorts(ctx, 2)
		if err != nil {
			return nil, err
		}
		b, err := startBalancerAt(ctx, log, addrs, ports[0], ports[1])
		if err == nil {
			return b, nil
		}
		// A port that was free a moment ago may have been taken by another process since.
		if !errors.Is(err, syscall.EADDRINUSE) || attempt == portAttempts {
			return nil, fmt.Errorf("start registry-lb: %w", err)
		}
	}
}

// startBalancerAt is startBalancer with addresses to listen on.
func startBalancerAt(ctx context.Context, log *zap.Logger, addrs []string, front, admin string) (*balancer, error) {
	dir, err := os.MkdirTemp("", "registry-lb-demo-")
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	b := &balancer{
		front:  front,
		admin:  admin,
		dir:    dir,
		http:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: parallel}, Timeout: adminTimeout},
		cancel: cancel,
		ended:  make(chan struct{}),
	}
	if err := b.write(addrs); err != nil {
		cancel()
		_ = os.RemoveAll(dir)
		return nil, err
	}
	go func() {
		defer close(b.ended)
		b.err = app.Run(running, b.config(), log)
	}()
	if err := b.await(ctx, addrs); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

// config is what this environment means:
//
//	NSM_LISTEN_ON=tcp://127.0.0.1:PORT NSM_ADMIN_LISTEN_ON=tcp://127.0.0.1:PORT NSM_TLS=insecure
//	NSM_BACKENDS=file:///DIRECTORY/registries NSM_STORE=partitioned NSM_JOIN_DELAY=200ms
//	NSM_DRAIN_DELAY=0s NSM_DRAIN_TIMEOUT=1s
//
// It is not read from the environment, which is that of the whole process and may have a meaning for its user.
func (b *balancer) config() *config.Config {
	return &config.Config{
		ListenOn:         config.ListenAddrs{{Network: tcp, Address: b.front}},
		AdminListenOn:    config.ListenAddr{Network: tcp, Address: b.admin},
		Backends:         config.Backends{Spec: endpoints.Spec{Scheme: endpoints.File, Path: b.file()}},
		Store:            config.StorePartitioned,
		TLS:              config.TLSInsecure,
		NoBackendWait:    noBackendWait,
		JoinDelay:        joinDelay,
		MaxTokenLifetime: 10 * time.Minute,
		ProbeInterval:    time.Second,
		ProbeTimeout:     time.Second,
		EmptyGrace:       30 * time.Second,
		DrainTimeout:     drainTimeout,
	}
}

// url is where clients connect.
func (b *balancer) url() *url.URL { return clientURL(b.front) }

// stop drains registry-lb.
func (b *balancer) stop() {
	b.cancel()
	// The admin server waits for connections that are open and have not been used yet.
	b.http.CloseIdleConnections()
	<-b.ended
	_ = os.RemoveAll(b.dir)
}

// setMembers edits the file that registry-lb follows, and waits until the registries at addrs are those that get calls.
func (b *balancer) setMembers(ctx context.Context, addrs []string) error {
	if err := b.write(addrs); err != nil {
		return err
	}
	return b.await(ctx, addrs)
}

func (b *balancer) file() string { return filepath.Join(b.dir, "registries") }

// write replaces the file as a whole.
func (b *balancer) write(addrs []string) error {
	text := "# Registries of the demo\n" + strings.Join(addrs, "\n") + "\n"
	next := b.file() + ".new"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, b.file())
}

// await waits until the members that get calls are those at addrs.
func (b *balancer) await(ctx context.Context, addrs []string) error {
	want := slices.Sorted(slices.Values(addrs))
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	ticker := time.NewTicker(changePoll)
	defer ticker.Stop()
	for {
		live, err := b.liveMembers(ctx)
		select {
		case <-b.ended:
			// Whoever answered was not registry-lb.
			return fmt.Errorf("registry-lb has ended: %w", b.err)
		default:
		}
		if err == nil && slices.Equal(live, want) {
			return nil
		}
		select {
		case <-b.ended:
		case <-ctx.Done():
			return fmt.Errorf("registry-lb does not send calls to %v: %w", want, errors.Join(ctx.Err(), err))
		case <-ticker.C:
		}
	}
}

// liveMembers returns the sorted names of the members that registry-lb has in its set: those that get calls, and those that
// would if they answered probes.
func (b *balancer) liveMembers(ctx context.Context) ([]string, error) {
	var answer struct {
		Members []struct {
			Name  string `json:"name"`
			State string `json:"state"`
		} `json:"members"`
	}
	if err := b.get(ctx, "/api/v1/members", nil, &answer); err != nil {
		return nil, err
	}
	var live []string
	for _, m := range answer.Members {
		if m.State == "live" || m.State == "suspect" {
			live = append(live, m.Name)
		}
	}
	slices.Sort(live)
	return live, nil
}

// locate returns the name of the member to which calls about the NSE go.
func (b *balancer) locate(ctx context.Context, nse string) (string, error) {
	var answer struct {
		Member string `json:"member"`
	}
	err := b.get(ctx, "/api/v1/locate", url.Values{"nse": {nse}}, &answer)
	return answer.Member, err
}

// get asks the admin server.
func (b *balancer) get(ctx context.Context, path string, query url.Values, answer any) error {
	target := url.URL{Scheme: "http", Host: b.admin, Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := b.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", target.String(), response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("%s answers what can't be read: %w", target.String(), err)
	}
	return nil
}
