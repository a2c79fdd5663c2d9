// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	// maxScrapes bounds how many scrapes are answered at once: each holds a copy of all metrics.
	maxScrapes = 4
	// scrapeTimeout is Prometheus' own default: nobody waits longer for the answer.
	scrapeTimeout = 10 * time.Second
)

// NewHandler returns what is served. backends is the place where members come from, as it was configured; metrics are
// taken from gatherer.
func NewHandler(view View, gatherer prometheus.Gatherer, backends string) http.Handler {
	h := handler{view: view, backends: backends}
	metrics := promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		// One metric that cannot be had must not hide the others.
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
	})
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", h.index)
	mux.HandleFunc("/healthz", h.healthz)
	mux.HandleFunc("/readyz", h.readyz)
	mux.Handle("/metrics", metrics)
	mux.HandleFunc("/api/v1/members", h.members)
	mux.HandleFunc("/api/v1/locate", h.locate)
	mux.HandleFunc("/api/v1/status", h.status)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, fmt.Errorf("there is no %s", r.URL.Path))
	})
	return guard(mux)
}

// guard lets reading methods through, and tells browsers to keep nothing, run nothing and guess nothing: names of
// members and NSEs are strangers' input.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Content-Type-Options", "nosniff")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			header.Set("Allow", "GET, HEAD")
			err := errors.New("nothing can be changed here: only GET and HEAD are served")
			if strings.HasPrefix(r.URL.Path, "/api/") {
				writeError(w, http.StatusMethodNotAllowed, err)
				return
			}
			writeText(w, http.StatusMethodNotAllowed, err.Error())
			return
		}
		next.ServeHTTP(w, r)
	})
}

type handler struct {
	view     View
	backends string
}

func (h handler) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, indexPage)
}

const indexPage = `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>registry-lb</title></head>
<body>
<h1>registry-lb</h1>
<ul>
<li><a href="/healthz">/healthz</a>: whether the process is alive</li>
<li><a href="/readyz">/readyz</a>: whether calls should be sent here, and why not</li>
<li><a href="/metrics">/metrics</a>: metrics for Prometheus</li>
<li><a href="/api/v1/members">/api/v1/members</a>: the members and what is thought of them</li>
<li><a href="/api/v1/status">/api/v1/status</a>: the directory of holders, and how many keys each member holds</li>
<li>/api/v1/locate?nse=NAME or ?ns=NAME: the member to which a call about that name goes, and why</li>
</ul>
</body>
</html>
`

func (h handler) healthz(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") }

func (h handler) readyz(w http.ResponseWriter, _ *http.Request) {
	reasons := slices.Clone(h.view.NotReady())
	if len(reasons) == 0 {
		writeText(w, http.StatusOK, "ok")
		return
	}
	for i, reason := range reasons {
		reasons[i] = strings.Join(strings.Fields(reason), " ")
	}
	writeText(w, http.StatusServiceUnavailable, strings.Join(reasons, "\n"))
}

func (h handler) members(w http.ResponseWriter, _ *http.Request) {
	members := slices.Clone(h.view.Members())
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Since.Compare(b.Since), cmp.Compare(a.UID, b.UID))
	})
	for i := range members {
		if members[i].Addresses == nil {
			members[i].Addresses = []string{}
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Backends string   `json:"backends"`
		Members  []Member `json:"members"`
	}{h.backends, append([]Member{}, members...)})
}

func (h handler) status(w http.ResponseWriter, _ *http.Request) {
	type directory struct {
		Synced      bool       `json:"synced"`
		Reason      string     `json:"reason,omitempty"`
		LastListing *time.Time `json:"last_listing,omitempty"`
	}
	s, notReady := h.view.Status(), h.view.NotReady()
	d := directory{Synced: s.DirectorySynced, Reason: s.DirectoryReason}
	if !s.LastListing.IsZero() {
		d.LastListing = &s.LastListing
	}
	writeJSON(w, http.StatusOK, struct {
		Backends      string              `json:"backends"`
		Ready         bool                `json:"ready"`
		NotReady      []string            `json:"not_ready,omitempty"`
		Keys          int                 `json:"keys"`
		KeysByMember  map[string]int      `json:"keys_by_member"`
		Directory     directory           `json:"directory"`
		DuplicateIDs  map[string][]string `json:"duplicate_spiffe_ids,omitempty"`
		TableChecksum string              `json:"table_checksum"`
	}{h.backends, len(notReady) == 0, notReady, s.Keys, s.KeysByMember, d, s.DuplicateIDs, fmt.Sprintf("%016x", s.TableChecksum)})
}

func (h handler) locate(w http.ResponseWriter, r *http.Request) {
	space, name, err := parseKey(r.URL.RawQuery)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	location, ok := h.view.Locate(space, name)
	if !ok {
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("there is no member at %s", h.backends))
		return
	}
	writeJSON(w, http.StatusOK, struct {
		Key     string    `json:"key"`
		Member  string    `json:"member"`
		Reason  string    `json:"reason"`
		Since   time.Time `json:"since,omitzero"`
		Expires time.Time `json:"expires,omitzero"`
	}{name, location.Member, location.Reason, location.Since.UTC(), location.Expires.UTC()})
}

// parseKey reads nse=NAME or ns=NAME.
func parseKey(query string) (shard.Space, string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, "", fmt.Errorf("the query cannot be read: %w", err)
	}
	nse, ns := values[shard.NSE.String()], values[shard.NS.String()]
	if len(nse)+len(ns) != 1 {
		return 0, "", errors.New("exactly one of nse=NAME and ns=NAME is expected")
	}
	space, name := shard.NSE, append(nse, ns...)[0]
	if len(ns) == 1 {
		space = shard.NS
	}
	if name == "" {
		return 0, "", fmt.Errorf("the name after %s= is empty", space)
	}
	if !utf8.ValidString(name) {
		return 0, "", fmt.Errorf("the name after %s= is not UTF-8, so nothing can be registered under it", space)
	}
	return space, name, nil
}

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n")
}

func writeError(w http.ResponseWriter, code int, err error) {
	writeJSON(w, code, struct {
		Error string `json:"error"`
	}{err.Error()})
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		writeText(w, http.StatusInternalServerError, fmt.Sprintf("cannot encode the answer: %v", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n'))
}
