// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"

	"github.com/networkservicemesh/registry-lb/e2e/internal/kubestore"
	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
)

const (
	// expiry is longer than the time that a world can make pass, so that nothing expires that is not meant to.
	expiry = 30 * time.Minute
	// callTimeout is the deadline of a call. Nothing comes near it unless it is broken.
	callTimeout = 10 * time.Second
)

// setting is how a world is made.
type setting struct {
	store proxy.Store
	// members and balancers are how many of them there are at first, endpoints how many names of NSEs.
	members, balancers, endpoints int
	joinDelay                     time.Duration
	// holdJoins keeps newcomers from joining until the clock releases them.
	holdJoins bool
	// id is the SPIFFE ID of all members; empty: each has its own. With one ID for all, only own traffic can tell a
	// balancer who holds what.
	id string
}

// world is a registry behind registry-lb, and the model of what it must do. Its methods return an error when the two
// differ.
type world struct {
	setting
	clock    *leapingClock
	kube     *kubestore.Store
	recorder *member.Recorder

	// members are those that run, by name.
	members map[string]*member.Member
	// view is what EndpointSlices say, by name: a crashed member may be in it, and one that runs may not.
	view map[string]shard.Member
	// free are names of members that ran once and do not any more, as a StatefulSet's pods.
	free []string

	balancers []*balancer
	// delays are after how many steps each balancer is told of changes; empty: at once.
	delays []int
	// leaving members are out of the view and stop when all balancers have been told.
	leaving []*member.Member

	endpoints []*endpoint
	identity  member.Identity

	// say tells what happens, in words.
	say func(format string, args ...any)

	members0, lives, balancers0 int // counters for names
	calls                       atomic.Int64
}

func newWorld(s setting) (w *world, err error) {
	var held time.Duration
	if s.holdJoins {
		held = s.joinDelay
	}
	w = &world{
		setting:  s,
		clock:    newLeapingClock(held),
		kube:     kubestore.New(kubestore.Options{}),
		recorder: member.NewRecorder(),
		members:  make(map[string]*member.Member),
		view:     make(map[string]shard.Member),
		say:      func(string, ...any) {},
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.identity, err = member.Token(member.ID("nse")); err != nil {
		return w, err
	}
	for i := range s.endpoints {
		w.endpoints = append(w.endpoints, newEndpoint(fmt.Sprintf("nse-%d", i), fmt.Sprintf("ns-%d", i%3)))
	}
	for range s.members {
		if err := w.scaleUp(); err != nil {
			return w, err
		}
	}
	for range s.balancers {
		if err := w.addBalancer(); err != nil {
			return w, err
		}
	}
	return w, nil
}

func (w *world) close() {
	for _, b := range w.balancers {
		b.stop()
	}
	for _, m := range slices.Concat(slices.Collect(maps.Values(w.members)), w.leaving) {
		m.Crash()
	}
}

func (w *world) partitioned() bool { return w.store == proxy.PartitionedStore }

// spiffeID is the SPIFFE ID of the member called name.
func (w *world) spiffeID(name string) string {
	if w.id != "" {
		return w.id
	}
	return member.ID(name)
}

// names returns the sorted names of the members that run and are in the view.
func (w *world) names() []string {
	names := make([]string, 0, len(w.members))
	for name := range w.members {
		if w.serving(w.members[name].Life()) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// serving says whether this life of a member runs and is in the view.
func (w *world) serving(l member.Life) bool {
	m, ok := w.members[l.Name]
	return ok && m.UID == l.UID && w.view[l.Name].UID == l.UID
}

// described is the view as a source of members gives it.
func (w *world) described() []shard.Member {
	described := make([]shard.Member, 0, len(w.view))
	for _, name := range slices.Sorted(maps.Keys(w.view)) {
		described = append(described, w.view[name])
	}
	return described
}

// tell gives the view to all balancers: at once, or in turn with what they have not been told yet.
func (w *world) tell() {
	for i, b := range w.balancers {
		if i < len(w.delays) && (w.delays[i] > 0 || len(b.late) > 0) {
			b.late = append(b.late, lateView{members: w.described(), steps: w.delays[i]})
			continue
		}
		b.tell(w.described())
	}
}

// stepLate brings late news one step nearer, and says whether some are still on their way.
func (w *world) stepLate() bool {
	late := false
	for _, b := range w.balancers {
		for len(b.late) > 0 && b.late[0].steps <= 0 {
			b.tell(b.late[0].members)
			b.late = b.late[1:]
		}
		if len(b.late) > 0 {
			b.late[0].steps--
			late = true
		}
	}
	if late {
		return true
	}
	for _, m := range w.leaving {
		w.left(m, true)
		m.Stop()
	}
	w.leaving = nil
	return false
}

// start starts a life of the member called name.
func (w *world) start(name string) error {
	w.lives++
	registryOf := member.Memory(expiry)
	if !w.partitioned() {
		registryOf = member.Kubernetes(w.kube.Client(), expiry)
	}
	m, err := member.Start(member.Options{
		Name: name, UID: "life-" + strconv.Itoa(w.lives), SPIFFEID: w.spiffeID(name), Registry: registryOf, Recorder: w.recorder,
	})
	if err != nil {
		return err
	}
	w.members[name] = m
	w.view[name] = m.Member
	w.say("%v starts", m.Life())
	return nil
}

// scaleUp adds a member with a new name.
func (w *world) scaleUp() error {
	name := fmt.Sprintf("registry-%d", w.members0)
	w.members0++
	if err := w.start(name); err != nil {
		return err
	}
	w.tell()
	return nil
}

// scaleDown takes a member away in good order: no calls any more, then it stops.
func (w *world) scaleDown(name string) {
	m := w.members[name]
	w.say("%v leaves", m.Life())
	delete(w.view, name)
	delete(w.members, name)
	w.free = append(w.free, name)
	w.left(m, true)
	w.tell()
	w.leaving = append(w.leaving, m)
	if len(w.delays) == 0 {
		w.stepLate()
	}
}

// crash ends a member. Nobody is told yet.
func (w *world) crash(name string) {
	m := w.members[name]
	w.say("%v crashes", m.Life())
	delete(w.members, name)
	w.free = append(w.free, name)
	w.left(m, true)
	m.Crash()
}

// notice takes crashed members out of the view.
func (w *world) notice() {
	w.say("crashes are noticed")
	maps.DeleteFunc(w.view, func(name string, _ shard.Member) bool { return w.members[name] == nil })
	w.tell()
}

// restart starts a member that has ended under its old name.
func (w *world) restart(name string) error {
	w.free = slices.DeleteFunc(w.free, func(n string) bool { return n == name })
	if err := w.start(name); err != nil {
		return err
	}
	w.tell()
	return nil
}

// hide makes a member not ready. It runs on.
func (w *world) hide(name string) {
	w.say("%v is not ready", w.members[name].Life())
	delete(w.view, name)
	w.left(w.members[name], false)
	w.tell()
}

// hidden are the members that run and are not in the view.
func (w *world) hidden() []string {
	var names []string
	for name := range w.members {
		if _, ok := w.view[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// show makes a hidden member ready again.
func (w *world) show(name string) {
	w.say("%v is ready again", w.members[name].Life())
	w.view[name] = w.members[name].Member
	w.tell()
}

// left tells the model that a member has left.
func (w *world) left(m *member.Member, stopped bool) {
	for _, e := range w.endpoints {
		e.left(m.Life(), w.partitioned(), stopped)
	}
}

func (w *world) addBalancer() error {
	w.balancers0++
	b, err := startBalancer(fmt.Sprintf("registry-lb-%d", w.balancers0), proxy.Options{
		Backends:      "the model's registry",
		Store:         w.store,
		NoBackendWait: callTimeout,
		JoinDelay:     w.joinDelay,
		Clock:         w.clock,
		Rand:          func() float64 { return 0 }, // nothing is spread over time
	}, w.described())
	if err != nil {
		return err
	}
	w.balancers = append(w.balancers, b)
	w.say("%s starts", b.name)
	return nil
}

func (w *world) removeBalancer(i int) {
	w.say("%s ends", w.balancers[i].name)
	w.balancers[i].stop()
	w.balancers = slices.Delete(w.balancers, i, i+1)
}

// describe is what the balancers know, for people.
func (w *world) describe() string {
	text := make([]string, 0, len(w.balancers))
	for _, b := range w.balancers {
		text = append(text, b.describe())
	}
	return strings.Join(text, "\n")
}
