// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest/observer"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

const (
	member0 = "r-0/u0 ready 10.0.0.1:5002"
	member1 = "r-1/u1 ready 10.0.0.2:5002"
	member2 = "r-2/u2 ready 10.0.0.3:5002"

	// longRetry is longer than the pauses between the attempts of an informer.
	longRetry = 2 * time.Minute
)

// cluster is a Service in a fake API server, followed by a source. It lives in a synctest bubble, so time passes
// only when all is at rest, and then exactly as far as asked.
type cluster struct {
	*follower
	t      *testing.T
	client *fake.Clientset
	source Source
	logs   *observer.ObservedLogs

	mu       sync.Mutex
	refuse   map[string]error // verb -> what the API server answers
	watchers []watch.Interface
}

// newCluster starts a follower once the cluster has the slices. setup may change the API server before.
func newCluster(t *testing.T, setup func(c *cluster), from ...*discoveryv1.EndpointSlice) *cluster {
	t.Helper()
	c := &cluster{t: t, client: fake.NewClientset(), refuse: make(map[string]error)}
	for _, s := range from {
		require.NoError(t, c.client.Tracker().Add(s))
	}
	c.client.PrependReactor("list", "endpointslices", func(k8stesting.Action) (bool, runtime.Object, error) {
		err := c.refusal("list")
		return err != nil, nil, err
	})
	c.client.PrependWatchReactor("endpointslices", func(action k8stesting.Action) (bool, watch.Interface, error) {
		if err := c.refusal("watch"); err != nil {
			return true, nil, err
		}
		w, err := c.client.Tracker().Watch(action.GetResource(), action.GetNamespace(), action.(k8stesting.WatchActionImpl).ListOptions)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watchers = append(c.watchers, w)
		return true, w, err
	})
	if setup != nil {
		setup(c)
	}
	logger, logs := newTestLogger()
	c.logs = logs
	source, err := New(Spec{Scheme: Kubernetes, Service: testService, Port: byRegistry},
		Options{Logger: logger, Client: c.client, Namespace: testNamespace})
	require.NoError(t, err)
	c.source = source
	c.follower = follow(t, source)
	synctest.Wait()
	return c
}

func (c *cluster) refusal(verb string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refuse[verb]
}

// answer sets what the API server answers to a verb from now on; nil: it does as it is told.
func (c *cluster) answer(verb string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse[verb] = err
}

// lastWatch is the watch that is open.
func (c *cluster) lastWatch() watch.Interface {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watchers[len(c.watchers)-1]
}

// loseWatch ends the watch with the answer of an API server that has forgotten the version to go on from.
func (c *cluster) loseWatch() {
	expired := apierrors.NewResourceExpired("too old resource version")
	c.lastWatch().(*watch.RaceFreeFakeWatcher).Error(&expired.ErrStatus)
}

func (c *cluster) create(s *discoveryv1.EndpointSlice) {
	c.t.Helper()
	_, err := c.client.DiscoveryV1().EndpointSlices(testNamespace).Create(c.t.Context(), s, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

func (c *cluster) update(s *discoveryv1.EndpointSlice) {
	c.t.Helper()
	_, err := c.client.DiscoveryV1().EndpointSlices(testNamespace).Update(c.t.Context(), s, metav1.UpdateOptions{})
	require.NoError(c.t, err)
}

func (c *cluster) remove(name string) {
	c.t.Helper()
	require.NoError(c.t, c.client.DiscoveryV1().EndpointSlices(testNamespace).Delete(c.t.Context(), name, metav1.DeleteOptions{}))
}

// pass lets time pass and all that is due happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func forbidden(verb string) *apierrors.StatusError {
	return apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "",
		fmt.Errorf("User %q cannot %s resource", "system:serviceaccount:nsm-system:registry-lb", verb))
}

func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

func TestKubernetesGivesTheFirstSnapshotAtOnce(t *testing.T) {
	t.Run("of a Service with pods", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, nil, slice("a", pod("r-0/u0", "10.0.0.1", ready)))
			require.Equal(t, [][]string{{member0}}, c.all(), "no time has passed")
			require.NoError(t, c.source.Err())
			require.NoError(t, c.stop())
		})
	})
	t.Run("of a Service that does not exist", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, nil)
			require.Equal(t, [][]string{{}}, c.all())
			require.NoError(t, c.source.Err())
			require.NoError(t, c.stop())
		})
	})
}

func TestKubernetesFollowsItsServiceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		others := slice("other", pod("x-0/u0", "10.0.0.9"))
		others.Labels[discoveryv1.LabelServiceName] = "other"
		elsewhere := slice("elsewhere", pod("y-0/u0", "10.0.0.8"))
		elsewhere.Namespace = "elsewhere"
		c := newCluster(t, nil, others, elsewhere, slice("a", pod("r-0/u0", "10.0.0.1")))
		require.Equal(t, []string{member0}, c.last())
		for _, action := range c.client.Actions() {
			require.Equal(t, testNamespace, action.GetNamespace())
			require.Contains(t, []string{"list", "watch"}, action.GetVerb())
			restrictions := map[string]k8stesting.ListRestrictions{}
			switch a := action.(type) {
			case k8stesting.ListActionImpl:
				restrictions["list"] = a.GetListRestrictions()
			case k8stesting.WatchActionImpl:
				require.Equal(t, "kubernetes.io/service-name="+testService, a.ListOptions.LabelSelector)
			}
			if r, ok := restrictions["list"]; ok {
				require.Equal(t, "kubernetes.io/service-name="+testService, r.Labels.String())
			}
		}
		require.NoError(t, c.stop())
	})
}

func TestKubernetesFollowsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, slice("a", pod("r-0/u0", "10.0.0.1")))
		c.create(slice("b", pod("r-1/u1", "10.0.0.2")))
		synctest.Wait()
		require.Len(t, c.all(), 1, "the quiet period is not over")
		pass(sliceQuiet)
		require.Equal(t, []string{member0, member1}, c.last())

		c.update(slice("a", pod("r-0/u0", "10.0.0.1", terminating)))
		pass(sliceQuiet)
		require.Equal(t, []string{"r-0/u0 terminating 10.0.0.1:5002", member1}, c.last())

		c.remove("a")
		pass(sliceQuiet)
		require.Equal(t, []string{member1}, c.last())

		c.remove("b")
		pass(sliceQuiet)
		require.Empty(t, c.last())
		require.Len(t, c.all(), 5)
		require.NoError(t, c.stop())
	})
}

func TestKubernetesMovesAnEndpointWithoutShowingIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, slice("a", pod("r-0/u0", "10.0.0.1"), pod("r-1/u1", "10.0.0.2")))
		c.create(slice("b", pod("r-1/u1", "10.0.0.2")))
		pass(time.Second)
		c.update(slice("a", pod("r-0/u0", "10.0.0.1")))
		pass(time.Second)
		require.Equal(t, [][]string{{member0, member1}}, c.all())
		require.NoError(t, c.stop())
	})
}

func TestKubernetesDoesNotSendEqualSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, slice("a", pod("r-0/u0", "10.0.0.1")))
		annotated := slice("a", pod("r-0/u0", "10.0.0.1"))
		annotated.Annotations = map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "now"}
		c.update(annotated)
		pass(time.Second)
		require.Len(t, c.all(), 1)
		require.NoError(t, c.stop())
	})
}

func TestKubernetesReadsAnewAfterALostWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil,
			slice("a", pod("r-0/u0", "10.0.0.1")), slice("b", pod("r-1/u1", "10.0.0.2")), slice("c", pod("r-2/u2", "10.0.0.3")))
		require.Equal(t, []string{member0, member1, member2}, c.last())
		pass(time.Minute)
		c.answer("watch", refused())
		c.lastWatch().Stop()
		pass(longRetry)
		c.remove("a") // nobody sees the event
		c.remove("c")
		require.Len(t, c.all(), 1)
		c.answer("watch", apierrors.NewResourceExpired("too old resource version"))
		pass(longRetry)
		c.answer("watch", nil)
		pass(longRetry)
		require.Equal(t, []string{member1}, c.last())
		require.Len(t, c.all(), 2, "nothing in between")
		require.NoError(t, c.source.Err())
		require.Equal(t, 2, c.logs.Len(), "the API server was away and came back; an expired version is no fault")
		require.NoError(t, c.stop())
	})
}

func TestKubernetesGoesOnAfterAWatchThatCloses(t *testing.T) {
	for name, closeWatch := range map[string]func(*cluster){
		"as API servers close it now and then": func(c *cluster) { c.lastWatch().Stop() },
		"because its version has expired":      func(c *cluster) { c.loseWatch() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, nil, slice("a", pod("r-0/u0", "10.0.0.1")))
				pass(time.Minute)
				closeWatch(c)
				pass(longRetry)
				c.create(slice("b", pod("r-1/u1", "10.0.0.2")))
				pass(longRetry)
				require.Equal(t, [][]string{{member0}, {member0, member1}}, c.all())
				require.Empty(t, c.logs.All(), "nothing worth a log line")
				require.NoError(t, c.source.Err())
				require.NoError(t, c.stop())
			})
		})
	}
}

func TestKubernetesWithoutTheRight(t *testing.T) {
	for verb, others := range map[string][]string{"list": {"watch"}, "watch": {}} {
		t.Run("to "+verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				want := fmt.Sprintf(`cannot %s endpointslices.discovery.k8s.io in namespace "nsm-system": give registry-lb's service account get, list and watch on them`, verb)
				c := newCluster(t, func(c *cluster) {
					for _, v := range append([]string{verb}, others...) {
						c.answer(v, forbidden(v))
					}
				}, slice("a", pod("r-0/u0", "10.0.0.1")))
				pass(time.Hour)
				require.ErrorContains(t, c.source.Err(), want)
				require.ErrorContains(t, c.source.Err(), `User "system:serviceaccount:nsm-system:registry-lb" cannot `+verb)
				require.NotContains(t, c.source.Err().Error(), "\n")
				require.Equal(t, 1, c.logs.Len(), "logged once, though tried for an hour")
				if verb == "list" {
					require.Empty(t, c.all(), "nothing was read yet")
				}

				c.answer("list", nil)
				c.answer("watch", nil)
				pass(longRetry)
				require.NoError(t, c.source.Err())
				require.Equal(t, [][]string{{member0}}, c.all())
				require.Equal(t, 2, c.logs.Len())
				require.Equal(t, "source of members can be read again", c.logs.All()[1].Message)
				require.NoError(t, c.stop())
			})
		})
	}
}

func TestKubernetesKeepsTheLastMembersWhileTheAPIServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, slice("a", pod("r-0/u0", "10.0.0.1")))
		c.answer("list", refused())
		c.answer("watch", refused())
		pass(time.Minute)
		c.lastWatch().Stop()
		pass(time.Hour)
		require.Equal(t, [][]string{{member0}}, c.all())
		require.ErrorContains(t, c.source.Err(), `in namespace "nsm-system": the API server cannot be reached (dial tcp: connect: connection refused)`)
		require.Equal(t, 1, c.logs.Len(), "logged once")

		c.create(slice("b", pod("r-1/u1", "10.0.0.2")))
		c.answer("list", nil)
		c.answer("watch", nil)
		pass(longRetry)
		require.Equal(t, [][]string{{member0}, {member0, member1}}, c.all())
		require.NoError(t, c.source.Err())
		require.Equal(t, 2, c.logs.Len())
		require.NoError(t, c.stop())
	})
}

func TestKubernetesReportsAPortThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, slice("a", pod("r-0/u0", "10.0.0.1")))
		c.update(slice("a", ports(port("grpc", 5002)), pod("r-0/u0", "10.0.0.1")))
		pass(sliceQuiet)
		require.Empty(t, c.last())
		require.EqualError(t, c.source.Err(), `Service "nsm-system/registry-k8s" (port registry) has no usable endpoint: `+
			`EndpointSlice "nsm-system/a": no TCP port is called "registry", there is "grpc" (5002)`)

		c.create(slice("b", pod("r-1/u1", "10.0.0.2")))
		pass(sliceQuiet)
		require.Equal(t, []string{member1}, c.last())
		require.NoError(t, c.source.Err(), "one slice has the port")
		require.NoError(t, c.stop())
	})
}

func TestKubernetesLogsAProblemOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := func(options ...sliceOption) *discoveryv1.EndpointSlice {
			return slice("a", append([]sliceOption{pod("r-9/u9", "nonsense")}, options...)...)
		}
		about := func(c *cluster) int { return c.logs.FilterMessage("endpoints left out").Len() }
		c := newCluster(t, nil, bad())
		require.Equal(t, 1, about(c))
		c.update(bad(pod("r-0/u0", "10.0.0.1")))
		pass(time.Second)
		require.Equal(t, 1, about(c), "still the same problem")
		require.Equal(t, []string{member0}, c.last())
		c.update(slice("a"))
		pass(time.Second)
		c.update(bad())
		pass(time.Second)
		require.Equal(t, 2, about(c), "it was gone and came back")

		many := make([]sliceOption, 0, 3*maxLogged)
		for i := range 3 * maxLogged {
			many = append(many, pod(fmt.Sprintf("r-%d/u", i), "nonsense"))
		}
		c.logs.TakeAll()
		c.update(slice("a", many...))
		pass(time.Second)
		require.Equal(t, maxLogged, about(c), "bounded")
		require.Equal(t, 1, c.logs.FilterMessage("more endpoints left out for like reasons").Len())
		require.NoError(t, c.stop())
	})
}

// One of a hundred pods is replaced each millisecond, for half a second.
func TestKubernetesInAnUpdateStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, stormSlice(0))
		const storm = 500
		want := make([][]string, 0, storm)
		began := time.Now()
		lastSeen := 0
		for i := 1; i <= storm; i++ {
			s := stormSlice(i)
			members, _ := merge(sliceSet{s}, byRegistry)
			want = append(want, show(members))
			c.lastWatch().(*watch.RaceFreeFakeWatcher).Modify(s)
			pass(time.Millisecond)
			// The newest snapshot must contain every change that is older than 100 ms.
			if all := c.all(); len(all) > 1 {
				if seen := slices.IndexFunc(want, func(w []string) bool { return slices.Equal(w, all[len(all)-1]) }); seen >= 0 {
					lastSeen = seen + 1
				}
			}
			require.LessOrEqual(t, i-lastSeen, 100, "a change waits for more than 100 ms")
		}
		pass(sliceQuiet)
		require.Equal(t, want[storm-1], c.last(), "the last word counts")
		require.LessOrEqual(t, len(c.all()), int(time.Since(began)/sliceLimit)+2, "bursts are collected")
		require.NoError(t, c.stop())
	})
}

// stormSlice has 100 pods of which each round changes one.
func stormSlice(round int) *discoveryv1.EndpointSlice {
	s := slice("a", version(fmt.Sprint(round+1)))
	for i := range 100 {
		generation := (round + 99 - i) / 100
		pod(fmt.Sprintf("r-%d/u-%d", i, generation), fmt.Sprintf("10.0.%d.%d", generation, i+1), ready)(s)
	}
	return s
}

func TestKubernetesStopsBeforeTheFirstSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(c *cluster) { c.answer("list", refused()) })
		require.NoError(t, c.stop())
		require.Empty(t, c.all())
	})
}

func TestKubernetesRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil, slice("a", pod("r-0/u0", "10.0.0.1")))
		require.NoError(t, c.stop())
		again := follow(t, c.source)
		synctest.Wait()
		require.Equal(t, [][]string{{member0}}, again.all())
		require.NoError(t, again.stop())
	})
}

func TestDropManagedFields(t *testing.T) {
	s := slice("a")
	s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	got, err := dropManagedFields(s)
	require.NoError(t, err)
	require.Empty(t, got.(*discoveryv1.EndpointSlice).ManagedFields)
	got, err = dropManagedFields("no object")
	require.NoError(t, err)
	require.Equal(t, "no object", got)
}

func TestExplainAPIError(t *testing.T) {
	resource := discoveryv1.Resource("endpointslices")
	for _, tc := range []struct {
		sentence string
		err      error
		want     string
	}{
		{"a missing right", forbidden("list"), "give registry-lb's service account get, list and watch on them with a Role and a RoleBinding in that namespace (the API server says: "},
		{"bad credentials", apierrors.NewUnauthorized("Unauthorized"), "does not accept the credentials of registry-lb"},
		{"an old API server", apierrors.NewNotFound(resource, ""), "Kubernetes 1.21 or later is needed"},
		{"an overloaded API server", apierrors.NewTooManyRequests("slow down", 1), "the API server is overloaded (it says: slow down)"},
		{"an API server that is not there", refused(), "the API server cannot be reached (dial tcp: connect: connection refused)"},
		{"any other answer", apierrors.NewBadRequest("a\nb"), "the API server says: a b"},
		{"a deadline", context.DeadlineExceeded, "the API server cannot be reached (context deadline exceeded)"},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			_, err := explainAPIError("list", "ns", fmt.Errorf("wrapped: %w", tc.err))
			require.ErrorContains(t, err, `cannot list endpointslices.discovery.k8s.io in namespace "ns": `)
			_, err = explainAPIError("list", "ns", tc.err)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// BenchmarkStorm is the time from a burst of 100 updates of a slice with 100 pods to the snapshot with the last of them,
// debouncing included.
func BenchmarkStorm(b *testing.B) {
	client := fake.NewClientset(stormSlice(0))
	events := watch.NewFakeWithChanSize(100, false)
	client.PrependWatchReactor("endpointslices", k8stesting.DefaultWatchReactor(events, nil))
	source, err := New(Spec{Scheme: Kubernetes, Service: testService, Port: byRegistry}, Options{Client: client, Namespace: testNamespace})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	updates := make(chan []shard.Member, 1000)
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx, func(m []shard.Member) { updates <- m }) }()
	<-updates
	burst := make(sliceSet, 100)
	round, snapshots := 0, 0
	for b.Loop() {
		b.StopTimer()
		for i := range burst {
			round++
			burst[i] = stormSlice(round % 20_000)
		}
		want, _ := merge(burst[99:], byRegistry)
		b.StartTimer()
		for _, s := range burst {
			events.Modify(s)
		}
		for snapshots++; !slices.EqualFunc(<-updates, want, equal); snapshots++ {
		}
	}
	b.ReportMetric(float64(snapshots)/float64(b.N), "snapshots/op")
	cancel()
	require.NoError(b, <-done)
}
