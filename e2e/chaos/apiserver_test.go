// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	v1 "github.com/networkservicemesh/sdk-k8s/pkg/tools/k8s/apis/networkservicemesh.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/networkservicemesh/registry-lb/e2e/internal/kubestore"
)

// serveStore serves the store as an API server serves custom resources, for the real clientset of other processes.
//
// One thing is left out: the timeoutSeconds of watches. registry-k8s asks for a minute and loses the deletions between
// one watch and the next; that is a fault of its own, which would hide those that are looked for here.
func serveStore(tb testing.TB, store *kubestore.Store) (url string) {
	tb.Helper()
	client := store.Client()
	mux := http.NewServeMux()
	handle(mux, "networkserviceendpoints", "NetworkServiceEndpoint", func(namespace string) crud[v1.NetworkServiceEndpoint, v1.NetworkServiceEndpointList] {
		return client.NetworkservicemeshV1().NetworkServiceEndpoints(namespace)
	}, func(l *v1.NetworkServiceEndpointList) []v1.NetworkServiceEndpoint { return l.Items },
		func(o *v1.NetworkServiceEndpoint) *metav1.TypeMeta { return &o.TypeMeta })
	handle(mux, "networkservices", "NetworkService", func(namespace string) crud[v1.NetworkService, v1.NetworkServiceList] {
		return client.NetworkservicemeshV1().NetworkServices(namespace)
	}, func(l *v1.NetworkServiceList) []v1.NetworkService { return l.Items },
		func(o *v1.NetworkService) *metav1.TypeMeta { return &o.TypeMeta })
	server := httptest.NewServer(mux)
	tb.Cleanup(func() {
		server.CloseClientConnections() // watches never end by themselves
		server.Close()
	})
	return server.URL
}

// crud is what the clients of both resources have in common.
type crud[T, L any] interface {
	Create(ctx context.Context, o *T, options metav1.CreateOptions) (*T, error)
	Update(ctx context.Context, o *T, options metav1.UpdateOptions) (*T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
	Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error)
	List(ctx context.Context, options metav1.ListOptions) (*L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

func handle[T, L any](mux *http.ServeMux, resource, kind string, in func(namespace string) crud[T, L], items func(*L) []T, meta func(*T) *metav1.TypeMeta) {
	typed := func(o *T) *T {
		*meta(o) = metav1.TypeMeta{APIVersion: v1.SchemeGroupVersion.String(), Kind: kind}
		return o
	}
	read := func(w http.ResponseWriter, r *http.Request) {
		client := in(r.PathValue("namespace"))
		if r.URL.Query().Get("watch") == "true" {
			follow(w, r, client, typed)
			return
		}
		list, err := client.List(r.Context(), metav1.ListOptions{})
		if err == nil {
			all := items(list)
			for i := range all {
				typed(&all[i])
			}
		}
		reply(w, list, err)
	}
	write := func(store func(context.Context, crud[T, L], *T) (*T, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			o := new(T)
			err := json.NewDecoder(r.Body).Decode(o)
			if err == nil {
				o, err = store(r.Context(), in(r.PathValue("namespace")), o)
			}
			reply(w, typed(o), err)
		}
	}
	all := "/apis/" + v1.SchemeGroupVersion.String() + "/" + resource
	some := "/apis/" + v1.SchemeGroupVersion.String() + "/namespaces/{namespace}/" + resource
	mux.HandleFunc("GET "+all, read)
	mux.HandleFunc("GET "+some, read)
	mux.HandleFunc("GET "+some+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		o, err := in(r.PathValue("namespace")).Get(r.Context(), r.PathValue("name"), metav1.GetOptions{})
		reply(w, typed(o), err)
	})
	mux.HandleFunc("POST "+some, write(func(ctx context.Context, c crud[T, L], o *T) (*T, error) {
		return c.Create(ctx, o, metav1.CreateOptions{})
	}))
	mux.HandleFunc("PUT "+some+"/{name}", write(func(ctx context.Context, c crud[T, L], o *T) (*T, error) {
		return c.Update(ctx, o, metav1.UpdateOptions{})
	}))
	mux.HandleFunc("DELETE "+some+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		var options metav1.DeleteOptions
		err := json.NewDecoder(r.Body).Decode(&options)
		if err == nil {
			err = in(r.PathValue("namespace")).Delete(r.Context(), r.PathValue("name"), options)
		}
		reply(w, &metav1.Status{Status: metav1.StatusSuccess}, err)
	})
}

// reply answers with o, or with the Status that err is.
func reply(w http.ResponseWriter, o any, err error) {
	code := http.StatusOK
	if err != nil {
		var known apierrors.APIStatus
		if !errors.As(err, &known) {
			known = apierrors.NewInternalError(err)
		}
		s := known.Status()
		s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		o, code = &s, int(s.Code)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o) // the client may be gone
}

// follow answers with one JSON document for each event, until a side ends it.
func follow[T, L any](w http.ResponseWriter, r *http.Request, client crud[T, L], typed func(*T) *T) {
	events, err := client.Watch(r.Context(), metav1.ListOptions{})
	if err != nil {
		reply(w, nil, err)
		return
	}
	defer events.Stop()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flusher, encoder := http.NewResponseController(w), json.NewEncoder(w)
	_ = flusher.Flush()
	for e := range events.ResultChan() {
		o, ok := any(e.Object).(*T)
		if !ok {
			return
		}
		if encoder.Encode(map[string]any{"type": e.Type, "object": typed(o)}) != nil {
			return
		}
		if len(events.ResultChan()) == 0 && flusher.Flush() != nil {
			return
		}
	}
}
