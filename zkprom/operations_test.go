package zkprom_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/zkprom"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A row is one symptom in docs/operations.md.
type row struct {
	symptom string
	log     string // what a line contains, with … for the parts that vary
	metric  string // "" if there is none
}

var (
	tableRow  = regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \| (.+?) \| .+ \|$`)
	condition = regexp.MustCompile(`^(sum\()?(\w+)(?:\{(.*)\})?\)? (==|<|>) (\S+)$`)
	matcher   = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// rows returns the rows of all tables of the document.
func rows(t *testing.T) (all []row) {
	t.Helper()
	text, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	for _, cells := range tableRow.FindAllStringSubmatch(string(text), -1) {
		if cells[1] == "symptom" || strings.HasPrefix(cells[1], "---") {
			continue
		}
		r := row{symptom: cells[1], log: strings.Trim(cells[2], "_`"), metric: strings.Trim(cells[3], "`—")}
		require.NotEmpty(t, r.log, r.symptom)
		all = append(all, r)
	}
	require.Greater(t, len(all), 20, "the tables were read")
	return all
}

// logged reports whether one of the lines has all parts of the log, in order.
func (r row) logged(lines []string) bool {
	for _, line := range lines {
		found := true
		for part := range strings.SplitSeq(r.log, " … ") {
			_, line, found = strings.Cut(line, part)
			if !found {
				break
			}
		}
		if found {
			return true
		}
	}
	return false
}

// measured reports whether the metrics of the processes meet the condition of the row, as PromQL reads it.
func (r row) measured(t *testing.T, processes ...prometheus.Gatherer) bool {
	t.Helper()
	parts := condition.FindStringSubmatch(r.metric)
	require.NotNil(t, parts, "%s: the metric is not understood: %s", r.symptom, r.metric)
	bound, err := strconv.ParseFloat(parts[5], 64)
	require.NoError(t, err)
	values := []float64{}
	for _, process := range processes {
		values = append(values, samples(t, process, parts[2], matcher.FindAllStringSubmatch(parts[3], -1))...)
	}
	if parts[1] != "" {
		total := 0.0
		for _, value := range values {
			total += value
		}
		values = []float64{total}
	}
	for _, value := range values {
		if parts[4] == "==" && value == bound || parts[4] == "<" && value < bound || parts[4] == ">" && value > bound {
			return true
		}
	}
	return false
}

// samples returns the values of a process's series that have the labels.
func samples(t *testing.T, process prometheus.Gatherer, name string, labels [][]string) (values []float64) {
	t.Helper()
	families, err := process.Gather()
	require.NoError(t, err)
	for _, family := range families {
		count := strings.TrimSuffix(name, "_count")
		if family.GetName() != name && family.GetName() != count {
			continue
		}
		for _, m := range family.GetMetric() {
			if !has(m, labels) {
				continue
			}
			switch family.GetType() {
			case dto.MetricType_HISTOGRAM:
				values = append(values, float64(m.GetHistogram().GetSampleCount()))
			case dto.MetricType_COUNTER:
				values = append(values, m.GetCounter().GetValue())
			default:
				values = append(values, m.GetGauge().GetValue())
			}
		}
	}
	return values
}

func has(m *dto.Metric, labels [][]string) bool {
	for _, want := range labels {
		found := false
		for _, pair := range m.GetLabel() {
			found = found || pair.GetName() == want[1] && pair.GetValue() == want[2]
		}
		if !found {
			return false
		}
	}
	return true
}

// journal is a log handler that records the lines.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler       { return j }
func (j *journal) WithGroup(string) slog.Handler            { return j }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		return nil
	}
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
	return nil
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.lines...)
}

// site is a server and the log of the processes that use it.
type site struct {
	t         *testing.T
	srv       *zktest.Server
	out       journal
	log       *slog.Logger
	processes []prometheus.Gatherer
	metrics   *zkprom.Collector // of the newest process
}

// options returns the options of a new process, with metrics.
func (s *site) options(label string, more []conn.Option) []conn.Option {
	s.t.Helper()
	metrics, err := zkprom.New()
	require.NoError(s.t, err)
	s.register(metrics)
	s.metrics = metrics
	return append([]conn.Option{
		conn.WithDialer(s.srv.DialAs(label)), conn.WithTracer(metrics.Tracer()), conn.WithLogger(s.log),
		conn.WithIdentity(label),
	}, more...)
}

// dial starts a process.
func (s *site) dial(label string, opts ...conn.Option) *conn.Client {
	s.t.Helper()
	client, err := conn.Dial(s.t.Context(), s.srv.Addr(), s.options(label, opts)...)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = client.Close() }) // never fails
	return client
}

// fails starts a process that cannot connect, and keeps trying until the end of the test.
func (s *site) fails(dial conn.DialFunc, opts ...conn.Option) {
	s.t.Helper()
	opts = s.options("a", append(opts, conn.WithDialer(dial)))
	go func() { _, _ = conn.Dial(s.t.Context(), s.srv.Addr(), opts...) }()
	time.Sleep(4 * time.Second)
}

func (s *site) mutex(client *conn.Client, path string, opts ...mutex.Option) *mutex.Mutex {
	s.t.Helper()
	m, err := mutex.New(client, path, opts...)
	require.NoError(s.t, err)
	return m
}

// lock starts a process that holds a lock.
func (s *site) lock(label string, opts ...mutex.Option) *zkrecipes.Hold {
	s.t.Helper()
	h, err := s.mutex(s.dial(label), "/lock", opts...).Lock(s.t.Context())
	require.NoError(s.t, err)
	time.Sleep(time.Minute)
	return h
}

// try starts a process that tries to acquire a lock for a while, and logs the result.
func (s *site) try(client *conn.Client, path string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	_, err := s.mutex(client, path).Lock(ctx)
	require.Error(s.t, err)
	s.log.Error("no lock", "error", err)
}

// member starts a process that serves shards.
func (s *site) member(id string, serve func(context.Context, *shard.Shard) error) *shard.Shards {
	s.t.Helper()
	client := s.dial(id)
	all, err := shard.New(client, "/app/parts", shard.WithID(id), shard.WithTracerName("parts"),
		shard.WithTracer(s.metrics.ShardTracer()))
	require.NoError(s.t, err)
	go func() { _ = all.Run(s.t.Context(), shard.List("p0"), serve) }() // until the end of the test
	time.Sleep(5 * time.Second)
	return all
}

// obey serves a shard until its context ends.
func obey(ctx context.Context, _ *shard.Shard) error {
	<-ctx.Done()
	return nil
}

// lead starts a process that leads until the server is unavailable.
func (s *site) lead(label string) *election.Election {
	s.t.Helper()
	e, err := election.New(s.dial(label), "/leader")
	require.NoError(s.t, err)
	_, err = e.Campaign(s.t.Context())
	require.NoError(s.t, err)
	time.Sleep(time.Minute)
	return e
}

// cache starts a process that follows a tree.
func (s *site) cache(label string) *cache.Cache {
	s.t.Helper()
	for _, path := range []string{"/app", "/app/secret"} {
		_, err := s.srv.Create(path, nil, zktest.Persistent)
		require.NoError(s.t, err)
	}
	c, err := cache.Tree(s.dial(label), "/app")
	require.NoError(s.t, err)
	s.register(must(zkprom.Cache("settings", c)))
	require.NoError(s.t, c.Ready(s.t.Context()))
	return c
}

// register adds metrics to those that are checked.
func (s *site) register(metrics prometheus.Collector) {
	s.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(s.t, registry.Register(metrics))
	s.processes = append(s.processes, registry)
}

// outage makes the server unreachable.
func (s *site) outage(d time.Duration) {
	s.srv.Refuse(zktest.Everyone)
	s.srv.Cut(zktest.Everyone)
	time.Sleep(d)
}

// mute is a server that reads requests and does not answer.
func mute(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }() // until the client hangs up
	return near, nil
}

// plain is a server that does not understand the client. It replies with an error and hangs up.
func plain(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	go func() {
		_, _ = far.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		_ = far.Close()
	}()
	return near, nil
}

// strict is a server that hangs up on connections without TLS.
func strict(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		_, _ = far.Read(make([]byte, 4<<10))
		_ = far.Close()
	}()
	return near, nil
}

func refuse(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }

// provoke has a function that causes each symptom. Log and metrics are checked when the function returns.
var provoke = map[string]func(s *site){
	"No process leads": func(s *site) {
		s.lead("a")
		s.outage(20 * time.Second)
	},
	"A function does not stop": func(s *site) {
		a := s.member("a", func(context.Context, *shard.Shard) error {
			<-s.t.Context().Done() // a correct function would check its own context
			return nil
		})
		s.member("b", obey)
		ctx, cancel := context.WithTimeout(s.t.Context(), 15*time.Second)
		defer cancel()
		require.Error(s.t, a.Leave(ctx))
	},
	"A shard fails on a member": func(s *site) {
		s.member("a", func(context.Context, *shard.Shard) error { return errors.New("no disk") })
		s.member("b", obey)
		time.Sleep(time.Minute)
	},
	"Two members with one id": func(s *site) {
		s.member("a", obey)
		s.member("a", obey)
	},
	"Lost: deadline": func(s *site) {
		s.lock("a")
		s.outage(20 * time.Second)
	},
	"Lost: expired": func(s *site) {
		s.srv.LoseWatch(zktest.Label("a"), s.lock("a").Path()) // or the server may report the deletion first
		s.srv.Expire(s.srv.SessionOf("a"))
	},
	"Lost: node deleted": func(s *site) {
		require.NoError(s.t, s.srv.Delete(s.lock("a").Path()))
	},
	"Lost: suspended": func(s *site) {
		s.lock("a", mutex.WithLossOnSuspend())
		s.srv.Cut(zktest.Everyone)
	},
	"Lost: refused": func(s *site) {
		_, err := s.mutex(s.dial("a", conn.WithAuth("digest", "user:password")), "/lock").Lock(s.t.Context())
		require.NoError(s.t, err)
		s.srv.Intercept(zktest.Match{Op: zktest.OpAuth, Times: -1}, zktest.Fail(zktest.CodeAuthFailed))
		s.srv.Cut(zktest.Everyone)
		time.Sleep(time.Second)
	},
	"Lost: closed": func(s *site) {
		client := s.dial("a")
		_, err := s.mutex(client, "/lock").Lock(s.t.Context())
		require.NoError(s.t, err)
		require.NoError(s.t, client.Close())
	},
	"The session has ended": func(s *site) {
		s.dial("a")
		s.srv.Expire(s.srv.SessionOf("a"))
		time.Sleep(time.Second)
	},
	"Disconnected": func(s *site) {
		s.dial("a")
		s.outage(time.Second)
	},
	"The deadline is near": func(s *site) {
		h := s.lock("a")
		s.outage(time.Until(h.ValidUntil()) - time.Second)
	},
	"A server answers nothing": func(s *site) {
		s.lock("a")
		s.srv.Stall(zktest.Everyone, zktest.Both)
		time.Sleep(8 * time.Second)
	},
	"One of several servers does not listen": func(s *site) {
		var dials atomic.Int64
		s.dial("a", conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) == 1 {
				return refuse(ctx, network, address)
			}
			return s.srv.DialAs("a")(ctx, network, address)
		}))
	},
	"A server has no quorum":       func(s *site) { s.fails(strict) },
	"No server listens":            func(s *site) { s.fails(refuse) },
	"The port is not ZooKeeper's":  func(s *site) { s.fails(mute) },
	"A TLS port without `WithTLS`": func(s *site) { s.fails(strict) },
	"`WithTLS` on a port without TLS": func(s *site) {
		trusting := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // in a test
		s.fails(plain, conn.WithTLS(trusting))
	},
	"The credentials are refused": func(s *site) { s.fails(s.srv.DialAs("a"), conn.WithAuth("nonsense", "secret")) },
	"A view is not current": func(s *site) {
		e := s.lead("a")
		views := make(chan election.Leadership)
		go func() {
			defer close(views)
			for view, err := range e.Watch(s.t.Context()) {
				if err == nil {
					views <- view
				}
			}
		}()
		require.True(s.t, (<-views).Current)
		s.outage(0)
		require.False(s.t, (<-views).Current)
		go func() {
			for range views { // until the end of the test
			}
		}()
	},
	"The queue is stuck": func(s *site) {
		s.lock("a")
		waiting := s.mutex(s.dial("b"), "/lock")
		s.try(s.dial("c"), "/lock")
		go func() { _, _ = waiting.Lock(s.t.Context()) }() // until the end of the test
	},
	"Not authorized": func(s *site) {
		client := s.dial("a")
		_, err := client.Create(s.t.Context(), "/secure", nil, 0, zk.DigestACL(zk.PermAll, "u", "p")...)
		require.NoError(s.t, err)
		s.try(client, "/secure")
	},
	"A foreign contender": func(s *site) {
		client := s.dial("a")
		require.NoError(s.t, client.CreateAll(s.t.Context(), "/lock", nil))
		_, err := client.Create(s.t.Context(), "/lock/0a1b__lock__0000000000", nil, zk.FlagEphemeral)
		require.NoError(s.t, err)
		s.try(client, "/lock")
	},
	"A foreign node in the queue": func(s *site) {
		for _, path := range []string{"/lock", "/lock/readme"} {
			_, err := s.srv.Create(path, nil, zktest.Persistent)
			require.NoError(s.t, err)
		}
		s.lock("a")
	},
	"Two limits for one semaphore": func(s *site) {
		for _, label := range []string{"a", "b"} {
			m, err := semaphore.New(s.dial(label), "/leases", 2)
			require.NoError(s.t, err)
			_, err = m.TryAcquire(s.t.Context(), 1)
			require.NoError(s.t, err)
		}
		m, err := semaphore.New(s.dial("c"), "/leases", 1)
		require.NoError(s.t, err)
		_, err = m.TryAcquire(s.t.Context(), 1)
		require.ErrorIs(s.t, err, zkrecipes.ErrLocked)
	},
	"A holder is asked to release": func(s *site) {
		h := s.lock("a")
		go func() {
			<-h.Revoked()
			s.log.Info("asked to release", "path", h.Path())
		}()
		m := s.mutex(s.dial("b"), "/lock")
		go func() { _, _ = m.Lock(s.t.Context()) }() // until the end of the test
		require.NoError(s.t, m.Revoke(s.t.Context()))
	},
	"A cache is stale": func(s *site) {
		s.cache("a")
		s.outage(time.Second)
	},
	"A cache cannot read a node": func(s *site) {
		s.srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: "^/app/secret$", Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		e, _ := s.cache("a").Get("/app/secret")
		s.log.Error("not read", "error", e.Err)
	},
}

// inSite runs a test in virtual time.
func inSite(t *testing.T, fn func(*site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &site{t: t, srv: zktest.Run(t, zktest.InMemory())}
		s.log = slog.New(&s.out)
		fn(s)
		synctest.Wait()
	})
}

func TestOperations_EveryRowIsReproduced(t *testing.T) {
	all := rows(t)
	seen := map[string]bool{}
	for _, r := range all {
		require.Contains(t, provoke, r.symptom, "a row that no test provokes")
		seen[r.symptom] = true
		t.Run(r.symptom, func(t *testing.T) {
			inSite(t, func(s *site) {
				provoke[r.symptom](s)
				synctest.Wait()
				require.True(s.t, r.logged(s.out.all()), "no line has %q:\n%s", r.log, strings.Join(s.out.all(), "\n"))
				require.True(s.t, r.metric == "" || r.measured(s.t, s.processes...), r.metric)
			})
		})
	}
	for symptom := range provoke {
		require.True(t, seen[symptom], "%s: provoked, and not in the document", symptom)
	}
}

// If nothing is wrong, no row applies: neither its log nor its metrics.
func TestOperations_InGoodHealthNoRowApplies(t *testing.T) {
	inSite(t, func(s *site) {
		s.lead("a")
		h := s.lock("b")
		s.cache("c")
		s.member("d", obey)
		synctest.Wait()
		for _, r := range rows(t) {
			require.False(t, r.logged(s.out.all()), r.symptom)
			require.False(t, r.metric != "" && r.measured(t, s.processes...), r.symptom)
		}
		require.NoError(t, h.Err())
	})
}
