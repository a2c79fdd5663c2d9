// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// fixed is a View of what it is told; the member of a name is its owner.
type fixed struct {
	mu       sync.Mutex
	members  []Member
	notReady []string
	owners   map[shard.Key]Location
	status   Status
}

func (f *fixed) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

func (f *fixed) Members() []Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Member(nil), f.members...)
}

func (f *fixed) NotReady() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.notReady
}

func (f *fixed) Locate(space shard.Space, name string) (Location, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, ok := f.owners[shard.Key{Space: space, Name: name}]
	return l, ok
}

func (f *fixed) set(change func(*fixed)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

type answer struct {
	code   int
	body   string
	header http.Header
}

// ask sends target as it stands, without the cleaning that a client does.
func ask(t require.TestingT, h http.Handler, method, target string) answer {
	w := httptest.NewRecorder()
	path, query, _ := strings.Cut(target, "?")
	r := &http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{}, RequestURI: target}
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	return answer{w.Code, string(body), w.Header()}
}

func newTestHandler(v View) http.Handler {
	return NewHandler(v, prometheus.NewRegistry(), "static://a:1")
}

func TestHealthzIsAboutTheProcessAlone(t *testing.T) {
	got := ask(t, newTestHandler(&fixed{notReady: []string{"no certificate"}}), "GET", "/healthz")
	require.Equal(t, 200, got.code)
	require.Equal(t, "ok\n", got.body)
}

func TestReadyzGivesTheReasons(t *testing.T) {
	view := &fixed{notReady: []string{"endpoints are not known", "directory\nhas not  synced"}}
	h := newTestHandler(view)
	got := ask(t, h, "GET", "/readyz")
	require.Equal(t, 503, got.code)
	require.Equal(t, "endpoints are not known\ndirectory has not synced\n", got.body, "one reason a line")
	require.Equal(t, "directory\nhas not  synced", view.notReady[1], "the view's own reasons stay")

	view.set(func(f *fixed) { f.notReady = nil })
	got = ask(t, h, "GET", "/readyz")
	require.Equal(t, 200, got.code)
	require.Equal(t, "ok\n", got.body)
}

func TestMembersAreSortedByName(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := newTestHandler(&fixed{members: []Member{
		{
			Name: "registry-1", UID: "u0", Addresses: []string{"10.0.0.1:5002", "[fd00::1]:5002"}, Node: "n", Zone: "z",
			State: Live, Since: since, Reason: "ready", SpiffeID: "spiffe://td/ns/nsm-system/pod/registry-1",
			RingShare: 0.5, Keys: 7,
		},
		{Name: "registry-0", UID: "u1", State: Joining, Since: since, Reason: "settling"},
	}})
	got := ask(t, h, "GET", "/api/v1/members")
	require.Equal(t, 200, got.code)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	want := `{"backends":"static://a:1","members":[` +
		`{"name":"registry-0","uid":"u1","addresses":[],"node":"","zone":"","state":"joining",` +
		`"since":"2026-01-02T03:04:05Z","reason":"settling","ring_share":0,"in_flight":0},` +
		`{"name":"registry-1","uid":"u0","addresses":["10.0.0.1:5002","[fd00::1]:5002"],"node":"n","zone":"z","state":"live",` +
		`"since":"2026-01-02T03:04:05Z","reason":"ready","spiffe_id":"spiffe://td/ns/nsm-system/pod/registry-1",` +
		`"ring_share":0.5,"keys":7,"in_flight":0}]}`
	require.Equal(t, want+"\n", got.body)
}

func TestMembersOfOneNameKeepTheirOrder(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	old, young := Member{Name: "a", UID: "z", Since: since}, Member{Name: "a", UID: "b", Since: since.Add(time.Second)}
	first := ask(t, newTestHandler(&fixed{members: []Member{old, young}}), "GET", "/api/v1/members")
	second := ask(t, newTestHandler(&fixed{members: []Member{young, old}}), "GET", "/api/v1/members")
	require.Equal(t, first.body, second.body)
	require.Less(t, strings.Index(first.body, `"z"`), strings.Index(first.body, `"b"`), "the older life first")
}

func TestNoMembersIsAnEmptyList(t *testing.T) {
	got := ask(t, newTestHandler(&fixed{}), "GET", "/api/v1/members")
	want := `{"backends":"static://a:1","members":[]}`
	require.Equal(t, want+"\n", got.body)
}

func TestLocate(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	h := newTestHandler(&fixed{owners: map[shard.Key]Location{
		shard.NSEKey("a"):     {Member: "registry-0", Reason: "holder"},
		shard.NSEKey("held"):  {Member: "registry-0", Reason: "holder", Since: since, Expires: since.Add(90*time.Minute + 5*time.Millisecond)},
		shard.NSKey("a"):      {Member: "registry-1", Reason: "ring"},
		shard.NSEKey("a@b+c"): {Member: "registry-2", Reason: "path"},
	}})
	rows := []struct {
		because, query string
		code           int
		body           string
	}{
		{"an NSE has a holder", "nse=a", 200, `{"key":"a","member":"registry-0","reason":"holder"}`},
		{
			"since when, and until when, is in UTC", "nse=held", 200,
			`{"key":"held","member":"registry-0","reason":"holder","since":"2026-01-02T02:04:05Z","expires":"2026-01-02T03:34:05.005Z"}`,
		},
		{"an NS of that name is another key", "ns=a", 200, `{"key":"a","member":"registry-1","reason":"ring"}`},
		{"a name may be escaped", "nse=a%40b%2Bc", 200, `{"key":"a@b+c","member":"registry-2","reason":"path"}`},
		{"other parameters do not matter", "x=y&ns=a", 200, `{"key":"a","member":"registry-1","reason":"ring"}`},
		{"nothing is asked", "", 400, `{"error":"exactly one of nse=NAME and ns=NAME is expected"}`},
		{"both are asked", "nse=a&ns=a", 400, `{"error":"exactly one of nse=NAME and ns=NAME is expected"}`},
		{"one is asked twice", "nse=a&nse=b", 400, `{"error":"exactly one of nse=NAME and ns=NAME is expected"}`},
		{"an NSE without a name", "nse=", 400, `{"error":"the name after nse= is empty"}`},
		{"an NS without a name", "ns", 400, `{"error":"the name after ns= is empty"}`},
		{"a name that is no text", "ns=%ff", 400, `{"error":"the name after ns= is not UTF-8, so nothing can be registered under it"}`},
		{"a query that is none", "nse=%zz", 400, `{"error":"the query cannot be read: invalid URL escape \"%zz\""}`},
		{"there is no member", "nse=other", 503, `{"error":"there is no member at static://a:1"}`},
	}
	for _, row := range rows {
		t.Run(row.because, func(t *testing.T) {
			got := ask(t, h, "GET", "/api/v1/locate?"+row.query)
			require.Equal(t, row.code, got.code)
			require.Equal(t, row.body+"\n", got.body)
			require.Equal(t, "application/json", got.header.Get("Content-Type"))
		})
	}
}

// everywhere finds each name at one member.
type everywhere struct{ fixed }

func (*everywhere) Locate(_ shard.Space, name string) (Location, bool) {
	return Location{Member: "holder of " + name, Reason: "ring"}, true
}

func TestAnyNameComesBackAsItWasAsked(t *testing.T) {
	h := newTestHandler(&everywhere{})
	names := rapid.OneOf(
		rapid.StringN(1, -1, -1),
		rapid.SampledFrom([]string{"\x00", "a\x00b", `"</script><script>alert(1)</script>`, "ü/../é", "\u2028", "a\r\nX: y", "%", "&ns=b"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		name := names.Filter(utf8.ValidString).Draw(t, "name")
		got := ask(t, h, "GET", "/api/v1/locate?nse="+url.QueryEscape(name))
		require.Equal(t, 200, got.code)
		var back map[string]string
		require.NoError(t, json.Unmarshal([]byte(got.body), &back))
		require.Equal(t, map[string]string{"key": name, "member": "holder of " + name, "reason": "ring"}, back)
		require.NotContains(t, got.body, "<", "markup stays text even for who takes the answer for a page")
		require.Equal(t, 1, strings.Count(got.body, "\n"))
	})
}

func TestIndexNamesWhatIsServed(t *testing.T) {
	h := newTestHandler(&fixed{})
	got := ask(t, h, "GET", "/")
	require.Equal(t, 200, got.code)
	require.Equal(t, "text/html; charset=utf-8", got.header.Get("Content-Type"))
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/api/v1/members"} {
		require.Contains(t, got.body, `href="`+path+`"`)
		require.Equal(t, 200, ask(t, h, "GET", path).code, path)
	}
}

func TestUnknownPaths(t *testing.T) {
	h := newTestHandler(&fixed{})
	got := ask(t, h, "GET", "/api/v2/<b>")
	require.Equal(t, 404, got.code)
	want := `{"error":"there is no /api/v2/\u003cb\u003e"}`
	require.Equal(t, want+"\n", got.body)
	require.Equal(t, 404, ask(t, h, "GET", "/nothing").code)
	require.Equal(t, 404, ask(t, h, "GET", "/debug/pprof/").code, "profiles have an address of their own")
}

func TestEveryAnswerTellsBrowsersToBeCareful(t *testing.T) {
	h := newTestHandler(&fixed{})
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/api/v1/members", "/api/v1/locate", "/api/", "/nothing"} {
		for _, method := range []string{"GET", "POST"} {
			header := ask(t, h, method, path).header
			require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"), path)
			require.Equal(t, "no-store", header.Get("Cache-Control"), path)
			require.Equal(t, "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
				header.Get("Content-Security-Policy"), path)
		}
	}
}

func TestNothingCanBeChanged(t *testing.T) {
	h := newTestHandler(&fixed{})
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "BREW"} {
		for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/api/v1/members", "/api/v1/locate", "/nothing"} {
			got := ask(t, h, method, path)
			require.Equal(t, 405, got.code, "%s %s", method, path)
			require.Equal(t, "GET, HEAD", got.header.Get("Allow"))
			require.Equal(t, strings.HasPrefix(path, "/api/"), strings.HasPrefix(got.body, `{"error":`), got.body)
		}
	}
}

func TestMetricsAreThoseOfTheGatherer(t *testing.T) {
	registry := prometheus.NewRegistry()
	members := prometheus.NewGauge(prometheus.GaugeOpts{Name: "registry_lb_members", Help: "h"})
	registry.MustRegister(members)
	members.Set(3)
	got := ask(t, NewHandler(&fixed{}, registry, ""), "GET", "/metrics")
	require.Equal(t, 200, got.code)
	require.Contains(t, got.body, "registry_lb_members 3\n")
	require.NotContains(t, got.body, "go_goroutines", "nothing but what was handed in")
}

func TestAllIsReadWhileItChanges(t *testing.T) {
	registry := prometheus.NewRegistry()
	changes := prometheus.NewCounter(prometheus.CounterOpts{Name: "registry_lb_changes_total", Help: "h"})
	registry.MustRegister(changes)
	view := &fixed{owners: map[shard.Key]Location{}}
	h := NewHandler(view, registry, "static://a:1")

	stop := make(chan struct{})
	var writer, readers sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			changes.Inc()
			view.set(func(f *fixed) {
				f.members = append([]Member{{Name: fmt.Sprint("m", i)}}, f.members[:min(len(f.members), 9)]...)
				f.owners[shard.NSEKey("a")] = Location{Member: fmt.Sprint("m", i), Reason: "ring"}
				f.notReady = []string{fmt.Sprint("reason ", i)}
			})
		}
	})
	for range 4 {
		readers.Go(func() {
			for range 50 {
				for _, path := range []string{"/metrics", "/readyz", "/api/v1/members", "/api/v1/locate?nse=a", "/"} {
					got := ask(t, h, "GET", path)
					if got.code >= 500 && path != "/readyz" && got.code != 503 {
						t.Errorf("%s: %d %s", path, got.code, got.body)
					}
				}
			}
		})
	}
	readers.Wait()
	close(stop)
	writer.Wait()
}

func TestStatusTellsWhatTheDirectoryKnows(t *testing.T) {
	view := &fixed{status: Status{
		Keys: 3, KeysByMember: map[string]int{"a": 1, "b": 2}, DirectorySynced: true,
		LastListing:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		DuplicateIDs: map[string][]string{"spiffe://d/x": {"a", "b"}}, TableChecksum: 0xabc,
	}}
	got := ask(t, newTestHandler(view), "GET", "/api/v1/status")
	require.Equal(t, http.StatusOK, got.code)
	require.JSONEq(t, `{"backends": "static://a:1", "ready": true, "keys": 3, "keys_by_member": {"a": 1, "b": 2},
		"directory": {"synced": true, "last_listing": "2026-01-02T03:04:05Z"},
		"duplicate_spiffe_ids": {"spiffe://d/x": ["a", "b"]}, "table_checksum": "0000000000000abc"}`, got.body)

	view.set(func(f *fixed) {
		f.status = Status{DirectoryReason: "a listing is missing"}
		f.notReady = []string{"a listing is missing"}
	})
	got = ask(t, newTestHandler(view), "GET", "/api/v1/status")
	require.JSONEq(t, `{"backends": "static://a:1", "ready": false, "not_ready": ["a listing is missing"], "keys": 0, "keys_by_member": null,
		"directory": {"synced": false, "reason": "a listing is missing"}, "table_checksum": "0000000000000000"}`, got.body)
}
