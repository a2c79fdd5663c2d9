// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// apiServer speaks the protocol of a Kubernetes API server for the slices of one Service, including the watch that
// begins with a list, which the fake clientset does not know.
type apiServer struct {
	slices []*discoveryv1.EndpointSlice
	// old API servers do not know the watch that begins with a list.
	old bool
	// closed API servers refuse everything.
	closed atomic.Bool

	refused, lists, watches, initial atomic.Int32
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	switch {
	case r.Method != http.MethodGet || r.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/nsm-system/endpointslices" ||
		query.Get("labelSelector") != "kubernetes.io/service-name=registry-k8s":
		answerError(w, apierrors.NewBadRequest("unexpected "+r.Method+" "+r.URL.String()))
	case s.closed.Load() && query.Get("watch") == "":
		s.refused.Add(1)
		answerError(w, forbidden("list"))
	case s.closed.Load():
		answerError(w, forbidden("watch"))
	case query.Get("watch") == "":
		s.lists.Add(1)
		list := discoveryv1.EndpointSliceList{TypeMeta: typeMeta("EndpointSliceList"), ListMeta: metav1.ListMeta{ResourceVersion: "10"}}
		for _, item := range s.slices {
			list.Items = append(list.Items, *item)
		}
		_ = json.NewEncoder(w).Encode(list)
	case query.Get("sendInitialEvents") == "true" && s.old:
		answerError(w, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", nil))
	case query.Get("sendInitialEvents") == "true":
		s.initial.Add(1)
		for _, item := range s.slices {
			sendEvent(w, "ADDED", item)
		}
		sendEvent(w, "BOOKMARK", &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "10", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
		<-r.Context().Done()
	default:
		s.watches.Add(1)
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: kind}
}

func answerError(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

func sendEvent(w http.ResponseWriter, kind string, s *discoveryv1.EndpointSlice) {
	s = s.DeepCopy()
	s.TypeMeta = typeMeta("EndpointSlice")
	raw, _ := json.Marshal(s)
	_ = json.NewEncoder(w).Encode(metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}})
	_ = http.NewResponseController(w).Flush()
}

func TestKubernetesOverTheWire(t *testing.T) {
	for _, tc := range []struct {
		sentence string
		old      bool
		closed   bool
		logs     int
	}{
		{sentence: "an API server that lists within the watch", logs: 0},
		{sentence: "an API server that knows lists and watches alone", old: true, logs: 0},
		{sentence: "an API server that gives the right later", closed: true, logs: 2},
		{sentence: "an old API server that gives the right later", old: true, closed: true, logs: 2},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			t.Parallel()
			api := &apiServer{old: tc.old, slices: sliceSet{slice("a", version("10"), pod("r-0/u0", "10.0.0.1"))}}
			api.closed.Store(tc.closed)
			server := httptest.NewServer(api)
			defer server.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			require.NoError(t, err)
			logger, logs := newTestLogger()
			source, err := New(Spec{Scheme: Kubernetes, Namespace: testNamespace, Service: testService, Port: byRegistry},
				Options{Logger: logger, Client: client})
			require.NoError(t, err)
			f := follow(t, source)

			if tc.closed {
				require.Eventually(t, func() bool { return api.refused.Load() >= 2 }, patience, pause)
				require.ErrorContains(t, source.Err(), `cannot list endpointslices.discovery.k8s.io in namespace "nsm-system": give registry-lb's`)
				require.Equal(t, 1, logs.Len(), "logged once")
				require.Empty(t, f.all())
				api.closed.Store(false)
			}
			require.EventuallyWithT(t, func(c *assert.CollectT) { require.Equal(c, []string{member0}, f.last()) }, 3*patience, pause)
			require.Eventually(t, func() bool { return source.Err() == nil && api.initial.Load()+api.watches.Load() > 0 }, patience, pause)
			require.Equal(t, tc.old, api.lists.Load() > 0)
			require.Equal(t, tc.logs, logs.Len())
			require.NoError(t, f.stop())
		})
	}
}

func TestKubernetesDoesNotWaitForAnAPIServerThatHangs(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	defer server.Close()
	defer close(release)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	source, err := New(Spec{Scheme: Kubernetes, Namespace: testNamespace, Service: testService}, Options{Client: client})
	require.NoError(t, err)
	f := follow(t, source)
	f.cancel()
	select {
	case err := <-f.done:
		require.NoError(t, err)
	case <-time.After(patience):
		require.Fail(t, "Run did not return")
	}
	require.Empty(t, f.all())
}
