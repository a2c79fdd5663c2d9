// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/networkservicemesh/registry-lb/pkg/shard"
)

// Reasons of registry_lb_retries_total.
const (
	retrySame  = "connection_lost"
	retryOther = "member_unreachable"
	retryLeft  = "member_left"
)

// metrics are what a proxy counts. No label is a name of an NSE or NS: their number has no bound.
type metrics struct {
	members    *prometheus.GaugeVec
	routes     map[shard.Reason]prometheus.Counter
	routeVec   *prometheus.CounterVec
	requests   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	retries    *prometheus.CounterVec
	watches    *prometheus.GaugeVec
	upstreams  *prometheus.GaugeVec
	dropped    prometheus.Counter
	checksum   prometheus.GaugeFunc
	lastUpdate prometheus.Gauge
	desperate  prometheus.Gauge
	remaps     *prometheus.CounterVec
	// directory are read from the directory when they are asked for.
	directory []prometheus.Collector
}

const (
	namespace    = "registry_lb"
	labelService = "service"
	labelReason  = "reason"
)

func newMetrics(p *Proxy) *metrics {
	m := &metrics{
		members: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "members",
			Help: "Members known, by state.",
		}, []string{"state"}),
		routeVec: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "route_total",
			Help: "Routing decisions, by what decided: the directory of holders, the request's path_ids, or the ring.",
		}, []string{labelReason}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "requests_total",
			Help: "Calls of clients that ended, by gRPC service, method and status code.",
		}, []string{labelService, "method", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "request_duration_seconds",
			Help:    "Time that calls of clients took, watches left out.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}, []string{labelService, "method"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "retries_total",
			Help: "Attempts that no member answered, by reason: the connection was lost (the member is asked again), the member can not be reached, or it left.",
		}, []string{labelReason}),
		watches: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "watch_clients",
			Help: "Watches that clients have open.",
		}, []string{labelService}),
		upstreams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "watch_upstreams",
			Help: "Watches that are open at members.",
		}, []string{labelService}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "watch_dropped_total",
			Help: "Watches that were ended because their client did not read.",
		}),
		lastUpdate: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "last_endpoints_sync_timestamp_seconds",
			Help: "When the set of members was last read, in seconds since the epoch; 0: never.",
		}),
	}
	m.desperate = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "all_members_suspect",
		Help: "1 while no member answers probes and all are asked nevertheless.",
	})
	m.remaps = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "remaps_total",
		Help: "Keys that got another holder, by reason: the one before left, or is still there (moved).",
	}, []string{labelReason})
	for _, reason := range []shard.Remap{shard.RemapLeft, shard.RemapMoved} {
		m.remaps.WithLabelValues(string(reason))
	}
	m.directory = directoryMetrics(p)
	m.checksum = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "table_checksum",
		Help: "Checksum of ring and members: equal at all registry-lb replicas that agree. Cut to 53 bits, which a float can hold.",
	}, func() float64 {
		const float64Mantissa = 53
		return float64(p.table.Ring().Checksum() >> (64 - float64Mantissa))
	})
	m.routes = make(map[shard.Reason]prometheus.Counter)
	for _, reason := range []shard.Reason{shard.ReasonHolder, shard.ReasonPath, shard.ReasonRing} {
		m.routes[reason] = m.routeVec.WithLabelValues(string(reason))
	}
	return m
}

func (m *metrics) register(r prometheus.Registerer) error {
	for _, c := range append(m.directory,
		m.members, m.routeVec, m.requests, m.durations, m.retries, m.watches, m.upstreams, m.dropped, m.checksum, m.lastUpdate, m.desperate,
		m.remaps,
	) {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func directoryMetrics(p *Proxy) []prometheus.Collector {
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, read)
	}
	return []prometheus.Collector{
		gauge("duplicate_member_ids", "SPIFFE IDs that more than one member has; path_ids do not tell such members apart.",
			func() float64 { return float64(len(p.table.DuplicateIDs())) }),
		gauge("keys", "Living keys in the directory of holders.", func() float64 { return float64(p.table.Keys()) }),
		gauge("directory_synced", "1 if the directory has been compared with a full listing of each registry that it follows.", func() float64 {
			if p.directory.status().Synced {
				return 1
			}
			return 0
		}),
		gauge("directory_last_listing_timestamp_seconds", "When a full listing was last complete, in seconds since the epoch; 0: never.", func() float64 {
			listed := p.directory.status().LastListing
			if listed.IsZero() {
				return 0
			}
			return float64(listed.UnixNano()) / float64(time.Second)
		}),
	}
}

func (m *metrics) routed(reason shard.Reason) { m.routes[reason].Inc() }

func (m *metrics) retried(reason string) { m.retries.WithLabelValues(reason).Inc() }

func (m *metrics) membersSet(now time.Time, counts map[State]int, desperate bool) {
	m.lastUpdate.Set(float64(now.UnixNano()) / float64(time.Second))
	for state, count := range counts {
		m.members.WithLabelValues(string(state)).Set(float64(count))
	}
	m.desperate.Set(0)
	if desperate {
		m.desperate.Set(1)
	}
}

// rpc is one method of a registry service, with its counters at hand.
type rpc struct {
	service, method string
	// fullMethod is the name as gRPC writes it, "/service/method".
	fullMethod string
	codes      [codes.Unauthenticated + 1]prometheus.Counter
	duration   prometheus.Observer
}

func (m *metrics) rpc(service, method string) *rpc {
	r := &rpc{
		service:    service,
		method:     method,
		fullMethod: "/" + service + "/" + method,
		duration:   m.durations.WithLabelValues(service, method),
	}
	for code := range r.codes {
		r.codes[code] = m.requests.WithLabelValues(service, method, codes.Code(code).String())
	}
	return r
}

// ended counts one call.
func (r *rpc) ended(err error) {
	code := status.Code(err)
	if int(code) >= len(r.codes) {
		code = codes.Unknown
	}
	r.codes[code].Inc()
}

// observe counts one call and its time.
func (r *rpc) observe(took time.Duration, err error) {
	r.ended(err)
	r.duration.Observe(took.Seconds())
}
