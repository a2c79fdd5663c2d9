// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"

	"github.com/networkservicemesh/registry-lb/e2e/internal/fleet"
	"github.com/networkservicemesh/registry-lb/e2e/internal/nsm"
)

const findTimeout = 15 * time.Second

type handler struct {
	ctx       context.Context //nolint:containedctx // groups live as long as the command
	newClient func(*ledger) registry.NetworkServiceEndpointRegistryClient

	mu     sync.Mutex
	groups map[string]*group
}

func newHandler(ctx context.Context, newClient func(*ledger) registry.NetworkServiceEndpointRegistryClient) http.Handler {
	h := &handler{ctx: ctx, newClient: newClient, groups: make(map[string]*group)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /find", h.find)
	mux.HandleFunc("PUT /groups/{prefix}", h.register)
	mux.HandleFunc("GET /groups/{prefix}", h.with(func(*group) {}))
	mux.HandleFunc("POST /groups/{prefix}", h.with(func(g *group) { g.ledger.forget() }))
	mux.HandleFunc("DELETE /groups/{prefix}", h.with((*group).unregister))
	return mux
}

func (h *handler) register(w http.ResponseWriter, r *http.Request) {
	var order fleet.Order
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		http.Error(w, fmt.Sprintf("the order cannot be read: %v", err), http.StatusBadRequest)
		return
	}
	l := newLedger(order.Pulse)
	g := newGroup(h.ctx, r.PathValue("prefix"), order, l, h.newClient(l)) //nolint:contextcheck // a group outlives the order
	h.mu.Lock()
	h.groups[g.prefix] = g
	h.mu.Unlock()
	g.register() //nolint:contextcheck // likewise
	answer(w, g.ledger.report())
}

// with does something to a group and answers with its report.
func (h *handler) with(do func(*group)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		g, ok := h.groups[r.PathValue("prefix")]
		h.mu.Unlock()
		if !ok {
			http.Error(w, "there is no such group", http.StatusNotFound)
			return
		}
		do(g)
		answer(w, g.ledger.report())
	}
}

func (h *handler) find(w http.ResponseWriter, r *http.Request) {
	nse := &registry.NetworkServiceEndpoint{Name: r.FormValue("name")}
	if service := r.FormValue("service"); service != "" {
		nse.NetworkServiceNames = []string{service}
	}
	ctx, cancel := context.WithTimeout(nsm.Quiet(r.Context()), findTimeout)
	defer cancel()
	stream, err := h.newClient(newLedger(0)).Find(ctx, &registry.NetworkServiceEndpointQuery{NetworkServiceEndpoint: nse})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	names := []string{}
	for _, nse := range registry.ReadNetworkServiceEndpointList(stream) {
		names = append(names, nse.GetName())
	}
	answer(w, names)
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}
