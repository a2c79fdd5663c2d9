// SPDX-License-Identifier: Apache-2.0

package kubestore_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/networkservicemesh/api/pkg/api/registry"
	v1 "github.com/networkservicemesh/sdk-k8s/pkg/tools/k8s/apis/networkservicemesh.io/v1"
	typedv1 "github.com/networkservicemesh/sdk-k8s/pkg/tools/k8s/client/clientset/versioned/typed/networkservicemesh.io/v1"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/networkservicemesh/registry-lb/e2e/internal/kubestore"
)

const (
	namespace = "nsm-system"
	patience  = 10 * time.Second
)

func nsesOf(s *kubestore.Store, namespace string) typedv1.NetworkServiceEndpointInterface {
	return s.Client().NetworkservicemeshV1().NetworkServiceEndpoints(namespace)
}

// nse is a resource in which every field of the NSE is set.
func nse(name, url string) *v1.NetworkServiceEndpoint {
	o := &v1.NetworkServiceEndpoint{ObjectMeta: metav1.ObjectMeta{Name: name}}
	proto.Merge(content(o), &registry.NetworkServiceEndpoint{
		Name:                    name,
		Url:                     url,
		NetworkServiceNames:     []string{"ns-1", "ns-2"},
		NetworkServiceLabels:    map[string]*registry.NetworkServiceLabels{"ns-1": {Labels: map[string]string{"a": "b"}}},
		ExpirationTime:          timestamppb.New(time.Unix(2_000_000_000, 42)),
		PathIds:                 []string{"spiffe://k8s.nsm/client", "spiffe://k8s.nsm/registry"},
		InitialRegistrationTime: timestamppb.New(time.Unix(1_000_000_000, 7)),
	})
	return o
}

func content(o *v1.NetworkServiceEndpoint) *registry.NetworkServiceEndpoint {
	return (*registry.NetworkServiceEndpoint)(&o.Spec)
}

func create(t *testing.T, s *kubestore.Store, o *v1.NetworkServiceEndpoint) *v1.NetworkServiceEndpoint {
	t.Helper()
	created, err := nsesOf(s, namespace).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	return created
}

func TestWritesAreChecked(t *testing.T) {
	t.Parallel()
	version := func(v string) metav1.DeleteOptions {
		return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &v}}
	}
	identity := func(v types.UID) metav1.DeleteOptions {
		return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &v}}
	}
	for _, test := range []struct {
		name string
		// write is done with the resource "there" in place.
		write func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, there *v1.NetworkServiceEndpoint) error
		want  func(error) bool
	}{
		{
			name: "a name that is taken can't be created",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, _ *v1.NetworkServiceEndpoint) error {
				_, err := c.Create(ctx, nse("there", ""), metav1.CreateOptions{})
				return err
			},
			want: apierrors.IsAlreadyExists,
		},
		{
			name: "a name that Kubernetes does not take can't be created",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, _ *v1.NetworkServiceEndpoint) error {
				_, err := c.Create(ctx, nse("Not_A_Name", ""), metav1.CreateOptions{})
				return err
			},
			want: apierrors.IsInvalid,
		},
		{
			name: "what has a resourceVersion can't be created",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, there *v1.NetworkServiceEndpoint) error {
				there.Name = "other"
				_, err := c.Create(ctx, there, metav1.CreateOptions{})
				return err
			},
			want: apierrors.IsBadRequest,
		},
		{
			name: "the current version can be updated",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, there *v1.NetworkServiceEndpoint) error {
				there.Spec.Url = "new"
				_, err := c.Update(ctx, there, metav1.UpdateOptions{})
				return err
			},
		},
		{
			name: "an older version can't be updated",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, there *v1.NetworkServiceEndpoint) error {
				there.Spec.Url = "new"
				if _, err := c.Update(ctx, there, metav1.UpdateOptions{}); err != nil {
					return err
				}
				there.Spec.Url = "newer"
				_, err := c.Update(ctx, there, metav1.UpdateOptions{})
				return err
			},
			want: apierrors.IsConflict,
		},
		{
			name: "an update without a version is refused",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, there *v1.NetworkServiceEndpoint) error {
				there.ResourceVersion = ""
				_, err := c.Update(ctx, there, metav1.UpdateOptions{})
				return err
			},
			want: apierrors.IsInvalid,
		},
		{
			name: "an update of another life of the name is refused",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, there *v1.NetworkServiceEndpoint) error {
				there.UID = "another"
				_, err := c.Update(ctx, there, metav1.UpdateOptions{})
				return err
			},
			want: apierrors.IsConflict,
		},
		{
			name: "what is not there can't be updated",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, there *v1.NetworkServiceEndpoint) error {
				there.Name = "missing"
				_, err := c.Update(ctx, there, metav1.UpdateOptions{})
				return err
			},
			want: apierrors.IsNotFound,
		},
		{
			name: "what is not there can't be read",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, _ *v1.NetworkServiceEndpoint) error {
				_, err := c.Get(ctx, "missing", metav1.GetOptions{})
				return err
			},
			want: apierrors.IsNotFound,
		},
		{
			name: "what is not there can't be deleted",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, _ *v1.NetworkServiceEndpoint) error {
				return c.Delete(ctx, "missing", metav1.DeleteOptions{})
			},
			want: apierrors.IsNotFound,
		},
		{
			name: "a delete without preconditions is done",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, _ *v1.NetworkServiceEndpoint) error {
				return c.Delete(ctx, "there", metav1.DeleteOptions{})
			},
		},
		{
			name: "a delete of the current version is done",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, there *v1.NetworkServiceEndpoint) error {
				return c.Delete(ctx, "there", version(there.ResourceVersion))
			},
		},
		{
			name: "a delete of an older version is refused",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, there *v1.NetworkServiceEndpoint) error {
				older := there.ResourceVersion
				there.Spec.Url = "new"
				if _, err := c.Update(ctx, there, metav1.UpdateOptions{}); err != nil {
					return err
				}
				return c.Delete(ctx, "there", version(older))
			},
			want: apierrors.IsConflict,
		},
		{
			name: "a delete of this life of the name is done",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, there *v1.NetworkServiceEndpoint) error {
				return c.Delete(ctx, "there", identity(there.UID))
			},
		},
		{
			name: "a delete of another life of the name is refused",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, _ *v1.NetworkServiceEndpoint) error {
				return c.Delete(ctx, "there", identity("another"))
			},
			want: apierrors.IsConflict,
		},
		{
			name: "the same name in another namespace is another resource",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, _ *v1.NetworkServiceEndpoint) error {
				o := nse("there", "")
				o.Namespace = "elsewhere"
				_, err := c.Create(ctx, o, metav1.CreateOptions{})
				return err
			},
			want: apierrors.IsBadRequest,
		},
		{
			name: "who has given up gets nothing done",
			write: func(ctx context.Context, c typedv1.NetworkServiceEndpointInterface, _ *v1.NetworkServiceEndpoint) error {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return c.Delete(ctx, "there", metav1.DeleteOptions{})
			},
			want: func(err error) bool { return err == context.Canceled }, //nolint:errorlint // not wrapped
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := kubestore.New(kubestore.Options{})
			there := create(t, s, nse("there", ""))
			err := test.write(t.Context(), nsesOf(s, namespace), there)
			if test.want == nil {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			require.True(t, test.want(err), "%v", err)
		})
	}
}

func TestEveryFieldIsKept(t *testing.T) {
	t.Parallel()
	s := kubestore.New(kubestore.Options{})
	want := content(nse("a", "tcp://a"))
	created := create(t, s, nse("a", "tcp://a"))
	require.True(t, proto.Equal(want, content(created)))
	got, err := nsesOf(s, namespace).Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, proto.Equal(want, content(got)))
	list, err := nsesOf(s, "").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	require.True(t, proto.Equal(want, content(&list.Items[0])))
	w, err := nsesOf(s, "").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer w.Stop()
	require.True(t, proto.Equal(want, content((<-w.ResultChan()).Object.(*v1.NetworkServiceEndpoint))))
}

func TestNothingIsShared(t *testing.T) {
	t.Parallel()
	s := kubestore.New(kubestore.Options{})
	given := nse("a", "tcp://a")
	created := create(t, s, given)
	list, err := nsesOf(s, namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	w, err := nsesOf(s, namespace).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer w.Stop()
	for _, o := range []*v1.NetworkServiceEndpoint{given, created, &list.Items[0], (<-w.ResultChan()).Object.(*v1.NetworkServiceEndpoint)} {
		o.Spec.PathIds[0] = "overwritten"
		o.Spec.NetworkServiceLabels["ns-1"].Labels["a"] = "overwritten"
	}
	got, err := nsesOf(s, namespace).Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, proto.Equal(content(nse("a", "tcp://a")), content(got)))
}

func TestNamesAreGenerated(t *testing.T) {
	t.Parallel()
	s := kubestore.New(kubestore.Options{})
	names := make(map[string]struct{})
	for range 100 {
		o := &v1.NetworkServiceEndpoint{ObjectMeta: metav1.ObjectMeta{GenerateName: "nse-"}}
		names[create(t, s, o).Name] = struct{}{}
	}
	require.Len(t, names, 100)
}

func TestVersionsGrow(t *testing.T) {
	t.Parallel()
	s := kubestore.New(kubestore.Options{})
	last := uint64(0)
	grown := func(version string) {
		t.Helper()
		v, err := strconv.ParseUint(version, 10, 64)
		require.NoError(t, err)
		require.Greater(t, v, last)
		last = v
	}
	a := create(t, s, nse("a", ""))
	grown(a.ResourceVersion)
	service, err := s.Client().NetworkservicemeshV1().NetworkServices(namespace).Create(t.Context(),
		&v1.NetworkService{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	grown(service.ResourceVersion)
	a.Spec.Url = "new"
	b, err := nsesOf(s, namespace).Update(t.Context(), a, metav1.UpdateOptions{})
	require.NoError(t, err)
	grown(b.ResourceVersion)
	require.EqualValues(t, 2, b.Generation)

	t.Run("not for an update that changes nothing", func(t *testing.T) {
		w, err := nsesOf(s, namespace).Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		defer w.Stop()
		require.Equal(t, "ADDED a", next(t, w))
		c, err := nsesOf(s, namespace).Update(t.Context(), b, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.Equal(t, b.ResourceVersion, c.ResourceVersion)
		create(t, s, nse("b", ""))
		require.Equal(t, "ADDED b", next(t, w), "the update that changed nothing is no event")
	})
}

// next is the next event as text.
func next(t *testing.T, w watch.Interface) string {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			return "end"
		}
		return fmt.Sprintf("%s %s", e.Type, e.Object.(*v1.NetworkServiceEndpoint).Name)
	case <-time.After(patience):
		require.FailNow(t, "no event")
		return ""
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	t.Run("sends all there is and then what happens, in order", func(t *testing.T) {
		t.Parallel()
		s := kubestore.New(kubestore.Options{})
		a := create(t, s, nse("a", ""))
		w, err := nsesOf(s, "").Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		defer w.Stop()
		require.Equal(t, "ADDED a", next(t, w))
		for i := range 1000 {
			a.Spec.Url = strconv.Itoa(i)
			a, err = nsesOf(s, namespace).Update(t.Context(), a, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
		require.NoError(t, nsesOf(s, namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}))
		create(t, s, nse("a", ""))
		for range 1000 {
			require.Equal(t, "MODIFIED a", next(t, w))
		}
		require.Equal(t, "DELETED a", next(t, w))
		require.Equal(t, "ADDED a", next(t, w))
	})
	t.Run("is for one namespace if asked so", func(t *testing.T) {
		t.Parallel()
		s := kubestore.New(kubestore.Options{})
		w, err := nsesOf(s, "elsewhere").Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		defer w.Stop()
		create(t, s, nse("a", ""))
		_, err = nsesOf(s, "elsewhere").Create(t.Context(), nse("b", ""), metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, "ADDED b", next(t, w))
	})
	t.Run("ends when its time is over, and loses deletes until the next one", func(t *testing.T) {
		t.Parallel()
		clock := clocktesting.NewFakeClock(time.Now())
		s := kubestore.New(kubestore.Options{WatchLimit: time.Minute, Clock: clock})
		create(t, s, nse("a", ""))
		create(t, s, nse("b", ""))
		asked := int64(10)
		w, err := nsesOf(s, "").Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: &asked})
		require.NoError(t, err)
		next(t, w)
		next(t, w)
		require.Eventually(t, clock.HasWaiters, patience, time.Millisecond)
		clock.Step(10 * time.Second)
		require.Equal(t, "end", next(t, w))
		require.NoError(t, nsesOf(s, namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}))
		asked = 600
		w, err = nsesOf(s, "").Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: &asked})
		require.NoError(t, err)
		require.Equal(t, "ADDED b", next(t, w))
		require.Eventually(t, clock.HasWaiters, patience, time.Millisecond)
		clock.Step(time.Minute) // the store's own limit
		require.Equal(t, "end", next(t, w))
	})
	t.Run("ends when the store ends all watches", func(t *testing.T) {
		t.Parallel()
		s := kubestore.New(kubestore.Options{})
		w, err := nsesOf(s, "").Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Equal(t, 1, s.Watches())
		s.EndWatches()
		require.Zero(t, s.Watches())
		require.Equal(t, "end", next(t, w))
	})
	t.Run("ends with its context", func(t *testing.T) {
		t.Parallel()
		s := kubestore.New(kubestore.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		w, err := nsesOf(s, "").Watch(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		cancel()
		require.Equal(t, "end", next(t, w))
	})
}

func TestAListIsASnapshot(t *testing.T) {
	t.Parallel()
	s := kubestore.New(kubestore.Options{})
	create(t, s, nse("b", ""))
	a := create(t, s, nse("a", ""))
	list, err := nsesOf(s, "").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, a.ResourceVersion, list.ResourceVersion)
	require.NoError(t, nsesOf(s, namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	require.Len(t, list.Items, 2)
	require.Equal(t, "a", list.Items[0].Name)
	require.Empty(t, s.EndpointNames())
}

func TestWhatIsNotSupportedIsRefused(t *testing.T) {
	t.Parallel()
	s := kubestore.New(kubestore.Options{})
	for name, options := range map[string]metav1.ListOptions{
		"label selector":      {LabelSelector: "a=b"},
		"field selector":      {FieldSelector: "metadata.name=a"},
		"an earlier version":  {ResourceVersion: "7"},
		"a list in pieces":    {Limit: 10},
		"bookmarks in events": {AllowWatchBookmarks: true},
	} {
		_, err := nsesOf(s, "").List(t.Context(), options)
		require.True(t, apierrors.IsMethodNotSupported(err), name)
		_, err = nsesOf(s, "").Watch(t.Context(), options)
		require.True(t, apierrors.IsMethodNotSupported(err), name)
	}
	_, err := nsesOf(s, namespace).Patch(t.Context(), "a", types.MergePatchType, nil, metav1.PatchOptions{})
	require.True(t, apierrors.IsMethodNotSupported(err))
}

// TestReplicasRace has several replicas count in one resource. With optimistic concurrency no count is lost.
func TestReplicasRace(t *testing.T) {
	t.Parallel()
	s := kubestore.New(kubestore.Options{})
	create(t, s, nse("counter", "0"))
	w, err := nsesOf(s, "").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer w.Stop()
	const replicas, each = 4, 50
	var group sync.WaitGroup
	for range replicas {
		group.Go(func() {
			c := nsesOf(s, namespace)
			for done := 0; done < each; {
				o, err := c.Get(t.Context(), "counter", metav1.GetOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				n, _ := strconv.Atoi(o.Spec.Url)
				o.Spec.Url = strconv.Itoa(n + 1)
				switch _, err = c.Update(t.Context(), o, metav1.UpdateOptions{}); {
				case err == nil:
					done++
				case !apierrors.IsConflict(err):
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	got, err := nsesOf(s, namespace).Get(t.Context(), "counter", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(replicas*each), got.Spec.Url)
	for i := range replicas*each + 1 {
		e := <-w.ResultChan()
		require.Equal(t, strconv.Itoa(i), e.Object.(*v1.NetworkServiceEndpoint).Spec.Url, "events have the order of the writes")
	}
}
