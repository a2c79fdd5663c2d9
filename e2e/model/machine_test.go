// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/networkservicemesh/registry-lb/pkg/proxy"
	"github.com/networkservicemesh/registry-lb/pkg/shard"

	"github.com/networkservicemesh/registry-lb/e2e/internal/member"
)

const (
	maxMembers   = 5
	maxBalancers = 3

	// leap is how much time passes at once, and maxLeap how much passes in all, so that nothing expires.
	leap    = shard.GuardTime + time.Second
	maxLeap = 3 * leap
)

func TestSharedStore(t *testing.T) {
	t.Parallel()
	runModel(t, proxy.SharedStore)
}

func TestPartitionedStore(t *testing.T) {
	t.Parallel()
	runModel(t, proxy.PartitionedStore)
}

func runModel(t *testing.T, store proxy.Store) {
	t.Helper()
	play(t, func(t *rapid.T) setting {
		return setting{
			store:     store,
			members:   rapid.IntRange(1, 4).Draw(t, "members"),
			balancers: rapid.IntRange(1, maxBalancers).Draw(t, "balancers"),
			endpoints: 12,
			joinDelay: rapid.SampledFrom([]time.Duration{0, 2 * time.Millisecond}).Draw(t, "join delay"),
		}
	}, machine.actions)
}

// play takes random steps in random worlds and counts them.
func play(t *testing.T, draw func(*rapid.T) setting, actions func(machine) []action) {
	t.Helper()
	var steps atomic.Int64
	var once sync.Once
	began := time.Now()
	rapid.Check(t, func(rt *rapid.T) {
		w, err := newWorld(draw(rt))
		require.NoError(rt, err)
		defer w.close()
		var story []string
		w.say = func(format string, args ...any) {
			story = append(story, fmt.Sprintf("%v ", time.Since(began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
			rt.Logf(format, args...)
		}
		m := machine{world: w, steps: &steps, fail: func(err error) {
			// Where things happen at the same time, rapid may not meet a failure again, and then it does not show it.
			once.Do(func() {
				t.Logf("first failure: %v\nafter:\n%s\nnow:\n%s", err, strings.Join(story, "\n"), w.describe())
			})
		}}
		rt.Repeat(m.repeat(actions(m)))
		for w.stepLate() {
			steps.Add(1)
		}
		m.require(rt, w.settle())
		m.require(rt, w.audit())
	})
	t.Logf("%d steps, %.0f a second", steps.Load(), float64(steps.Load())/time.Since(began).Seconds())
}

// machine takes random steps in a world.
type machine struct {
	*world
	steps *atomic.Int64
	// fail is told what went wrong.
	fail func(error)
}

// require ends the test if the world differs from the model.
func (m machine) require(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		m.fail(err)
	}
	require.NoError(t, err)
}

// action is a kind of step.
type action struct {
	name string
	// weight is how often it is taken, compared with others; what is frequent stands first.
	weight int
	// step takes a step, or skips it before it has drawn anything.
	step func(t *rapid.T) error
}

func (m machine) actions() []action {
	actions := []action{
		{name: "refresh", weight: 12, step: m.refresh},
		{name: "register", weight: 10, step: m.registerNew},
		{name: "unregister", weight: 6, step: m.unregisterOne},
		{name: "find by name", weight: 5, step: m.findOne},
		{name: "find by network service", weight: 3, step: m.findService},
		{name: "register again without memory", weight: 3, step: m.registerWithoutMemory},
		{name: "refresh with a forged path", weight: 2, step: m.forge},
		{name: "unregister what is lost", weight: 1, step: m.unregisterLost},
		{name: "scale up", weight: 1, step: m.moreMembers},
		{name: "scale down", weight: 1, step: m.fewerMembers},
		{name: "member crashes", weight: 1, step: m.crashOne},
		{name: "crash is noticed", weight: 1, step: m.noticeCrash},
		{name: "member restarts", weight: 2, step: m.restartOne},
		{name: "balancer restarts", weight: 1, step: m.restartBalancer},
		{name: "balancer is added", weight: 1, step: m.moreBalancers},
		{name: "balancer is removed", weight: 1, step: m.fewerBalancers},
		{name: "time passes", weight: 1, step: m.timePasses},
	}
	if !m.partitioned() {
		actions = append(actions,
			action{name: "API server ends watches", weight: 1, step: m.endWatches},
			action{name: "unregister unnoticed", weight: 1, step: m.loseDelete},
			// What only a member's own memory knows would come and go with it: no promise covers that.
			action{name: "member is not ready", weight: 1, step: m.hideOne},
			action{name: "member is ready again", weight: 1, step: m.showOne},
		)
	}
	return actions
}

// repeat makes what rapid repeats of actions.
func (m machine) repeat(actions []action) map[string]func(*rapid.T) {
	byName := make(map[string]func(*rapid.T))
	for i, a := range actions {
		for j := range a.weight {
			// rapid prefers what comes first in the order of the keys.
			byName[fmt.Sprintf("%02d %s/%02d", i, a.name, j)] = func(t *rapid.T) {
				m.require(t, a.step(t))
				m.steps.Add(1)
				m.stepLate()
				if rapid.IntRange(0, 3).Draw(t, "news travel") > 0 {
					m.require(t, m.settle())
				}
			}
		}
	}
	byName[""] = func(t *rapid.T) { m.require(t, m.check()) }
	return byName
}

// balancer draws a balancer.
func (m machine) balancer(t *rapid.T) *balancer {
	return m.balancers[rapid.IntRange(0, len(m.balancers)-1).Draw(t, "balancer")]
}

// endpoint draws one of the NSEs for which want is true, and skips the step if there is none.
func (m machine) endpoint(t *rapid.T, want func(*endpoint) bool) *endpoint {
	t.Helper()
	var names []string
	for _, e := range m.endpoints {
		if want(e) {
			names = append(names, e.name)
		}
	}
	name := draw(t, "NSE", names)
	return m.endpoints[slices.IndexFunc(m.endpoints, func(e *endpoint) bool { return e.name == name })]
}

// pass has rapid take another step in place of this one, which makes no sense now. No test is skipped.
func pass(t *rapid.T, why string) {
	t.Helper()
	t.Skip(why) // reason: this skips a random step, as T.Repeat of rapid documents it, and no test; rapid takes another step
}

// draw draws a name, and skips the step if there is none.
func draw(t *rapid.T, label string, names []string) string {
	t.Helper()
	if len(names) == 0 {
		pass(t, "no "+label)
	}
	return rapid.SampledFrom(names).Draw(t, label)
}

func registered(e *endpoint) bool { return e.registered }

func (m machine) registerNew(t *rapid.T) error {
	e := m.endpoint(t, func(e *endpoint) bool { return !e.registered })
	return m.register(m.balancer(t), e)
}

func (m machine) refresh(t *rapid.T) error {
	e := m.endpoint(t, registered)
	return m.register(m.balancer(t), e)
}

// registerWithoutMemory is an NSE that was restarted and does not know that it is registered.
func (m machine) registerWithoutMemory(t *rapid.T) error {
	e := m.endpoint(t, func(e *endpoint) bool { return e.registered && !e.fresh })
	e.forget()
	return m.register(m.balancer(t), e)
}

// forge is a request that names another member as the holder.
func (m machine) forge(t *rapid.T) error {
	e := m.endpoint(t, func(e *endpoint) bool { return e.registered && !e.fresh && e.holder != (member.Life{}) })
	e.request.PathIds = []string{member.ID("nse"), m.spiffeID(draw(t, "member", m.names()))}
	return m.register(m.balancer(t), e)
}

func (m machine) unregisterOne(t *rapid.T) error {
	e := m.endpoint(t, (*endpoint).there)
	return m.unregister(m.balancer(t), e)
}

// unregisterLost is an NSE that unregisters and does not know that the registry has lost it. No event tells anybody, so
// the balancer may think for some time that whatever it hears of the NSE is from before.
func (m machine) unregisterLost(t *rapid.T) error {
	m.skipLeap(t)
	e := m.endpoint(t, func(e *endpoint) bool { return e.registered && e.lost })
	err := m.unregister(m.balancer(t), e)
	m.clock.leap(leap)
	return err
}

func (m machine) findOne(t *rapid.T) error {
	e := m.endpoint(t, func(*endpoint) bool { return true })
	return m.findByName(m.balancer(t), e)
}

func (m machine) findService(t *rapid.T) error {
	service := rapid.SampledFrom([]string{"ns-0", "ns-1", "ns-2"}).Draw(t, "network service")
	return m.findAll(m.balancer(t), service)
}

func (m machine) moreMembers(t *rapid.T) error {
	if len(m.members) >= maxMembers {
		pass(t, "enough members")
	}
	return m.scaleUp()
}

// spare returns the names of members that may go: without them there is still one that all balancers give new keys to.
func (m machine) spare() []string {
	names := m.names()
	live := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !m.liveEverywhere(name) })
	if len(live) == 1 {
		return slices.DeleteFunc(names, func(name string) bool { return name == live[0] })
	}
	if len(live) == 0 {
		return nil
	}
	return names
}

func (m machine) liveEverywhere(name string) bool {
	for _, b := range m.balancers {
		at := slices.IndexFunc(b.proxy.Members(), func(s proxy.MemberStatus) bool { return s.Name == name && s.State == proxy.StateLive })
		if at < 0 || !b.knows(m.members[name].Life()) {
			return false
		}
	}
	return true
}

func (m machine) fewerMembers(t *rapid.T) error {
	m.scaleDown(draw(t, "member", m.spare()))
	return nil
}

func (m machine) crashOne(t *rapid.T) error {
	m.crash(draw(t, "member", m.spare()))
	if rapid.Bool().Draw(t, "noticed") {
		m.notice()
	}
	return nil
}

func (m machine) noticeCrash(t *rapid.T) error {
	if len(m.view) == len(m.names()) {
		pass(t, "no crash")
	}
	m.notice()
	return nil
}

func (m machine) restartOne(t *rapid.T) error {
	if len(m.members) >= maxMembers {
		pass(t, "enough members")
	}
	return m.restart(draw(t, "member", m.free))
}

func (m machine) hideOne(t *rapid.T) error {
	m.hide(draw(t, "member", m.spare()))
	return nil
}

func (m machine) showOne(t *rapid.T) error {
	m.show(draw(t, "member", m.hidden()))
	return nil
}

func (m machine) moreBalancers(t *rapid.T) error {
	if len(m.balancers) >= maxBalancers {
		pass(t, "enough balancers")
	}
	return m.addBalancer()
}

func (m machine) fewerBalancers(t *rapid.T) error {
	if len(m.balancers) == 1 {
		pass(t, "the last balancer")
	}
	m.removeBalancer(rapid.IntRange(0, len(m.balancers)-1).Draw(t, "balancer"))
	return nil
}

func (m machine) restartBalancer(t *rapid.T) error {
	m.removeBalancer(rapid.IntRange(0, len(m.balancers)-1).Draw(t, "balancer"))
	return m.addBalancer()
}

// endWatches has all members begin their watches anew, which makes them repeat everything.
func (m machine) endWatches(*rapid.T) error {
	if err := m.settle(); err != nil {
		return err
	}
	m.say("the API server ends all watches")
	m.kube.EndWatches()
	return eventually(func() error {
		if now, want := m.kube.Watches(), 2*len(m.members); now < want {
			return fmt.Errorf("members have %d watches, want %d", now, want)
		}
		return nil
	})
}

// loseDelete has an NSE unregister while no member watches. Nobody but the balancer is told then, until the next
// listing; and what a balancer thinks of an NSE that is not registered matters to nobody. The balancer itself may think
// for some time that whatever it hears of the NSE is from before.
func (m machine) loseDelete(t *rapid.T) error {
	m.skipLeap(t)
	e := m.endpoint(t, (*endpoint).there)
	b := m.balancer(t)
	m.say("the API server ends all watches")
	m.kube.EndWatches()
	err := m.unregister(b, e)
	m.clock.leap(leap)
	e.fresh = false
	return err
}

func (m machine) timePasses(t *rapid.T) error {
	m.skipLeap(t)
	m.clock.leap(leap)
	return nil
}

// skipLeap skips a step in which time passes if that would be too much.
func (m machine) skipLeap(t *rapid.T) {
	t.Helper()
	if m.clock.passed() >= maxLeap {
		pass(t, "enough time has passed")
	}
}
