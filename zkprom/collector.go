package zkprom

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
)

// Collector maintains one client's metrics. Pass its Tracer to conn.WithTracer, and register the Collector with
// Prometheus.
type Collector struct {
	config config

	acquire  *prometheus.HistogramVec
	waiting  *prometheus.GaugeVec
	hold     *prometheus.HistogramVec
	holds    *prometheus.GaugeVec
	losses   *prometheus.CounterVec
	changes  *prometheus.CounterVec
	connects *prometheus.HistogramVec
	requests *prometheus.HistogramVec
	failures *prometheus.CounterVec

	moves *prometheus.CounterVec
	waits *prometheus.HistogramVec

	deadline, state, stateSeconds, timeout  *prometheus.Desc // computed at each scrape
	shardsOwned, shardsWaiting, longestWait *prometheus.Desc // likewise

	ops map[string]prometheus.Observer // of requests; never modified

	mu      sync.RWMutex
	locks   map[labels]*lock
	shards  map[labels]*shards
	servers map[string]bool // that have their own metrics

	session sync.Mutex // guards the fields below
	now     string     // the state
	since   time.Time
	granted time.Duration // the session timeout; 0 before the first session
}

var _ prometheus.Collector = (*Collector)(nil)

var (
	states  = []string{"connecting", "connected", "suspended", "lost", "closed"}
	ops     = wire.OpNames()
	reasons = []zkrecipes.LossReason{
		zkrecipes.LossExpired, zkrecipes.LossDeadline, zkrecipes.LossNodeDeleted, zkrecipes.LossClosed,
		zkrecipes.LossSuspended,
		zkrecipes.LossRefused,
	}
)

// New returns a collector for one client.
//
// Errors: those of the options.
func New(opts ...Option) (*Collector, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("zkprom: %w", err)
	}
	of := []string{"recipe", "name"}
	if cfg.paths {
		of = append(of, "path")
	}
	with := func(more string) []string { return append(slices.Clip(of), more) }
	c := &Collector{
		config:  cfg,
		acquire: histogram("acquire_seconds", "Duration of acquisitions, by outcome.", cfg.acquire, with("outcome")),
		waiting: gauge("waiting", "Acquisitions that are waiting.", of),
		hold:    histogram("hold_seconds", "Duration of holds that have ended.", cfg.hold, of),
		holds:   gauge("holds", "Holds that are currently held.", of),
		losses:  counter("hold_losses_total", "Holds that ended without a release, by reason.", with("reason")),
		changes: counter("session_state_changes_total", "Changes of the client's state, by new state.", []string{"state"}),
		connects: histogram("connect_seconds", "Duration of attempts to connect, by outcome.", cfg.request,
			[]string{"server", "outcome"}),
		requests: histogram("request_seconds", "How long servers took to answer requests.", cfg.request, []string{"op"}),
		failures: counter("request_errors_total", "Requests that ended with an error, by code.", []string{"op", "code"}),
		moves:    counter("shard_moves_total", "Shards that plans of this leader moved away from their owners.", of[1:]),
		waits: histogram("shard_wait_seconds", "How long shards waited for this member, from the plan to its lock.",
			cfg.acquire, of[1:]),

		deadline:     desc("hold_deadline_seconds", "Time until the earliest deadline of a hold.", of...),
		state:        desc("session_state", "1 for the state of the client, 0 for the others.", "state"),
		stateSeconds: desc("session_state_seconds", "How long the client has been in its state."),
		timeout:      desc("session_timeout_seconds", "The session timeout that the server granted."),

		shardsOwned: desc("shards_owned", "Shards that this member currently owns.", of[1:]...),
		shardsWaiting: desc("shards_waiting", "Shards that the plan assigns to this member, but that it does not own yet.",
			of[1:]...),
		longestWait: desc("shard_longest_wait_seconds",
			"How long the longest-waiting shard has waited; 0 if none is waiting.", of[1:]...),

		ops:     make(map[string]prometheus.Observer),
		locks:   make(map[labels]*lock),
		shards:  make(map[labels]*shards),
		servers: make(map[string]bool),
		now:     states[0],
		since:   time.Now(),
	}
	for _, op := range ops {
		c.ops[op] = c.requests.WithLabelValues(op)
	}
	for _, state := range states {
		c.changes.WithLabelValues(state)
	}
	return c, nil
}

func histogram(name, help string, buckets []float64, labels []string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help,
		Buckets: buckets,
	}, labels)
}

func gauge(name, help string, labels []string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func counter(name, help string, labels []string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

const namespace = "zkrecipes"

// Tracer returns the tracer to pass to conn.WithTracer.
func (c *Collector) Tracer() *zkrecipes.Tracer {
	return &zkrecipes.Tracer{
		AcquireStart: c.traceAcquireStart, AcquireEnd: c.traceAcquireEnd,
		HoldStart: c.traceHoldStart, HoldEnd: c.traceHoldEnd,
		State: c.traceState, Connect: c.traceConnect, Request: c.traceRequest,
	}
}

// ShardTracer returns the tracer to pass to shard.WithTracer.
func (c *Collector) ShardTracer() *shard.Tracer {
	return &shard.Tracer{Change: c.traceShard, Plan: c.traceShardPlan}
}

func (c *Collector) traceAcquireStart(ctx context.Context, a zkrecipes.AcquireStart) context.Context {
	c.lock(a.Recipe, a.Name, a.Path).waiting.Inc()
	return ctx
}

func (c *Collector) traceAcquireEnd(_ context.Context, a zkrecipes.AcquireEnd) {
	l := c.lock(a.Recipe, a.Name, a.Path)
	l.waiting.Dec()
	granted := l.granted
	if outcome := a.Outcome(); outcome != "granted" {
		granted = c.acquire.WithLabelValues(l.with(outcome)...)
	}
	granted.Observe(a.Waited.Seconds())
}

func (c *Collector) traceHoldStart(ctx context.Context, h zkrecipes.HoldStart) context.Context {
	l := c.lock(h.Recipe, h.Name, h.Queue)
	l.holds.Inc()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.validUntil[h.Path] = h.ValidUntil
	return ctx
}

func (c *Collector) traceHoldEnd(_ context.Context, h zkrecipes.HoldEnd) {
	l := c.lock(h.Recipe, h.Name, h.Queue)
	l.holds.Dec()
	l.held.Observe(h.Held.Seconds())
	if h.Lost != nil {
		c.losses.WithLabelValues(l.with(h.Lost.Reason.String())...).Inc()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.validUntil, h.Path)
}

func (c *Collector) traceState(s zkrecipes.StateChange) {
	c.changes.WithLabelValues(s.To.String()).Inc()
	c.session.Lock()
	defer c.session.Unlock()
	c.now, c.since, c.granted = s.To.String(), s.At, s.Timeout
}

func (c *Collector) traceConnect(a zkrecipes.Connect) {
	c.connects.WithLabelValues(c.server(a.Server), a.Outcome).Observe(a.Took.Seconds())
}

// server returns the label of a server: its name, without the address that the name currently resolves to.
func (c *Collector) server(as string) string {
	name, _, _ := strings.Cut(as, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.servers[name] && len(c.servers) >= c.config.maxNames {
		return other
	}
	c.servers[name] = true
	return name
}

func (c *Collector) traceRequest(_ context.Context, r zkrecipes.Request) {
	took, ok := c.ops[r.Op]
	if !ok {
		took = c.requests.WithLabelValues(r.Op)
	}
	took.Observe(r.Took.Seconds())
	if r.Err != nil {
		c.failures.WithLabelValues(r.Op, r.Code).Inc()
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, vec := range c.vectors() {
		vec.Describe(to)
	}
	for _, d := range []*prometheus.Desc{
		c.deadline, c.state, c.stateSeconds, c.timeout, c.shardsOwned, c.shardsWaiting,
		c.longestWait,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for _, vec := range c.vectors() {
		vec.Collect(to)
	}
	c.collectDeadlines(to)
	c.collectState(to)
	c.collectShards(to)
}

func (c *Collector) vectors() []prometheus.Collector {
	return []prometheus.Collector{
		c.acquire, c.waiting, c.hold, c.holds, c.losses, c.changes, c.connects, c.requests, c.failures, c.moves, c.waits,
	}
}

func (c *Collector) collectDeadlines(to chan<- prometheus.Metric) {
	c.mu.RLock()
	locks := slices.Collect(maps.Values(c.locks))
	c.mu.RUnlock() // a scraper may be slow, and calls of the library need mu
	for _, l := range locks {
		if until, ok := l.deadline(); ok {
			to <- prometheus.MustNewConstMetric(c.deadline, prometheus.GaugeValue, time.Until(until).Seconds(), l.values...)
		}
	}
}

func (c *Collector) collectState(to chan<- prometheus.Metric) {
	c.session.Lock()
	now, since, granted := c.now, c.since, c.granted
	c.session.Unlock()
	for _, state := range states {
		is := 0.0
		if state == now {
			is = 1
		}
		to <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, is, state)
	}
	to <- prometheus.MustNewConstMetric(c.stateSeconds, prometheus.GaugeValue, time.Since(since).Seconds())
	if granted > 0 {
		to <- prometheus.MustNewConstMetric(c.timeout, prometheus.GaugeValue, granted.Seconds())
	}
}
