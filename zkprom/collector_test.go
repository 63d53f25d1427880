package zkprom_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zkprom"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const timeout = bubble.Timeout

func dial(t *testing.T, srv *zktest.Server, label string, opts ...zkprom.Option) (*conn.Client, *zkprom.Collector) {
	t.Helper()
	c, err := zkprom.New(opts...)
	require.NoError(t, err)
	client := bubble.Dial(t, srv, label, conn.WithTracer(c.Tracer()))
	synctest.Wait()
	return client, c
}

func lock(t *testing.T, client *conn.Client, opts ...mutex.Option) *zkrecipes.Hold {
	t.Helper()
	m, err := mutex.New(client, "/lock", opts...)
	require.NoError(t, err)
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	return h
}

// scrape returns the samples of one scrape by series, as Prometheus reads them.
func scrape(t *testing.T, c prometheus.Collector) map[string]string {
	t.Helper()
	synctest.Wait()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer,
		httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, answer.Code)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	samples := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if series, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && series != "#" {
			samples[series] = value
		}
	}
	return samples
}

func TestCollector_ALockFromItsWaitToItsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		first, _ := dial(t, srv, "first")
		h := lock(t, first)
		client, c := dial(t, srv, "a")
		m, err := mutex.New(client, "/lock", mutex.WithTracerName("invoices"))
		require.NoError(t, err)
		granted := make(chan *zkrecipes.Hold, 1)
		go func() {
			h, _ := m.Lock(t.Context())
			granted <- h
		}()
		synctest.Wait()
		s := scrape(t, c)
		require.Equal(t, "1", s[`zkrecipes_waiting{name="invoices",recipe="mutex"}`])
		require.Equal(t, "0", s[`zkrecipes_holds{name="invoices",recipe="mutex"}`])
		require.NotContains(t, s, `zkrecipes_hold_deadline_seconds{name="invoices",recipe="mutex"}`)

		time.Sleep(3 * time.Second)
		require.NoError(t, h.Release(t.Context()))
		h = <-granted
		require.NotNil(t, h)
		s = scrape(t, c)
		require.Equal(t, "0", s[`zkrecipes_waiting{name="invoices",recipe="mutex"}`])
		require.Equal(t, "1", s[`zkrecipes_holds{name="invoices",recipe="mutex"}`])
		require.Equal(t, "3", s[`zkrecipes_acquire_seconds_sum{name="invoices",outcome="granted",recipe="mutex"}`])
		require.Equal(t, "0",
			s[`zkrecipes_acquire_seconds_bucket{name="invoices",outcome="granted",recipe="mutex",le="2.5"}`])
		require.Equal(t, "1", s[`zkrecipes_acquire_seconds_bucket{name="invoices",outcome="granted",recipe="mutex",le="5"}`])
		require.Equal(t, fmt.Sprint(time.Until(h.ValidUntil()).Seconds()),
			s[`zkrecipes_hold_deadline_seconds{name="invoices",recipe="mutex"}`])

		time.Sleep(2 * time.Second)
		require.NoError(t, h.Release(t.Context()))
		s = scrape(t, c)
		require.Equal(t, "0", s[`zkrecipes_holds{name="invoices",recipe="mutex"}`])
		require.Equal(t, "2", s[`zkrecipes_hold_seconds_sum{name="invoices",recipe="mutex"}`])
		require.Equal(t, "1", s[`zkrecipes_hold_seconds_count{name="invoices",recipe="mutex"}`])
		require.NotContains(t, s, `zkrecipes_hold_deadline_seconds{name="invoices",recipe="mutex"}`)
		for _, reason := range []string{"expired", "deadline", "node-deleted", "closed", "suspended", "refused"} {
			require.Equal(t, "0", s[fmt.Sprintf(`zkrecipes_hold_losses_total{name="invoices",reason=%q,recipe="mutex"}`,
				reason)])
		}
	})
}

func TestCollector_Outcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		first, _ := dial(t, srv, "first")
		lock(t, first)
		client, c := dial(t, srv, "a")
		m, err := mutex.New(client, "/lock")
		require.NoError(t, err)
		_, err = m.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = m.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		s := scrape(t, c)
		require.Equal(t, "1", s[`zkrecipes_acquire_seconds_count{name="",outcome="busy",recipe="mutex"}`])
		require.Equal(t, "1", s[`zkrecipes_acquire_seconds_count{name="",outcome="canceled",recipe="mutex"}`])
		require.Equal(t, "0", s[`zkrecipes_acquire_seconds_count{name="",outcome="granted",recipe="mutex"}`])
		require.Equal(t, "0", s[`zkrecipes_waiting{name="",recipe="mutex"}`])
	})
}

// Two sessions hold locks with the same name, and each scrape visits the holds in a different order.
func TestCollector_TheNearestDeadlineCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		c, err := zkprom.New()
		require.NoError(t, err)
		var nearest time.Time
		for i, of := range []time.Duration{timeout, 2 * timeout, 2 * timeout} {
			client := bubble.Dial(t, srv, "a", conn.WithSessionTimeout(of), conn.WithTracer(c.Tracer()))
			m, err := mutex.New(client, fmt.Sprintf("/lock%d", i), mutex.WithTracerName("invoices"))
			require.NoError(t, err)
			h, err := m.Lock(t.Context())
			require.NoError(t, err)
			if i == 0 {
				nearest = h.ValidUntil()
			}
		}
		for range 50 {
			require.Equal(t, fmt.Sprint(time.Until(nearest).Seconds()),
				scrape(t, c)[`zkrecipes_hold_deadline_seconds{name="invoices",recipe="mutex"}`])
		}
	})
}

// Each fault is visible in the next scrape.
func TestCollector_FaultsAreSeenInOneScrape(t *testing.T) {
	const of = `name="leader",recipe="election"`
	state := func(s string) string { return fmt.Sprintf(`zkrecipes_session_state{state=%q}`, s) }
	changes := func(s string) string { return fmt.Sprintf(`zkrecipes_session_state_changes_total{state=%q}`, s) }
	start := func(t *testing.T) (*zktest.Server, *election.Term, *zkprom.Collector) {
		t.Helper()
		srv := zktest.Run(t, zktest.InMemory())
		client, c := dial(t, srv, "a")
		e, err := election.New(client, "/leader", election.WithTracerName("leader"))
		require.NoError(t, err)
		term, err := e.Campaign(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		s := scrape(t, c)
		require.Equal(t, "1", s[state("connected")])
		require.Equal(t, "1", s["zkrecipes_session_state_seconds"])
		require.Equal(t, "10", s["zkrecipes_session_timeout_seconds"])
		require.Equal(t, "0", s[changes("suspended")])
		return srv, term, c
	}
	t.Run("no server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv, term, c := start(t)
			srv.Refuse(zktest.Everyone)
			srv.Cut(zktest.Everyone)
			time.Sleep(3 * time.Second)
			s := scrape(t, c)
			require.Equal(t, "1", s[state("suspended")])
			require.Equal(t, "0", s[state("connected")])
			require.Equal(t, "3", s["zkrecipes_session_state_seconds"])
			require.Equal(t, "1", s["zkrecipes_holds{"+of+"}"])
			require.Equal(t, fmt.Sprint(time.Until(term.ValidUntil()).Seconds()), s["zkrecipes_hold_deadline_seconds{"+of+"}"])
			require.Less(t, time.Until(term.ValidUntil()), timeout)

			time.Sleep(timeout)
			s = scrape(t, c)
			require.Equal(t, "0", s["zkrecipes_holds{"+of+"}"])
			require.Equal(t, "1", s[`zkrecipes_hold_losses_total{name="leader",reason="deadline",recipe="election"}`])
			require.Equal(t, "1", s[state("lost")])
		})
	})
	t.Run("cut for a moment", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv, term, c := start(t)
			srv.Cut(zktest.Everyone)
			time.Sleep(time.Second)
			s := scrape(t, c)
			require.Equal(t, "1", s[state("connected")])
			require.Equal(t, "1", s[changes("suspended")])
			require.Equal(t, "2", s[changes("connected")])
			require.NoError(t, term.Err())
		})
	})
}

func TestCollector_Requests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithWriteLatency(300*time.Millisecond))
		client, c := dial(t, srv, "a")
		_, err := client.Create(t.Context(), "/a/b", nil, 0)
		require.Error(t, err)
		_, _, err = client.Exists(t.Context(), "/a")
		require.NoError(t, err)
		srv.Intercept(zktest.Match{Op: zktest.OpDelete, Times: 1}, zktest.DropReply())
		_ = client.Delete(t.Context(), "/a", -1)
		s := scrape(t, c)
		require.Equal(t, "0", s[`zkrecipes_request_seconds_bucket{op="create",le="0.25"}`])
		require.Equal(t, "1", s[`zkrecipes_request_seconds_bucket{op="create",le="0.5"}`])
		require.Equal(t, "1", s[`zkrecipes_request_errors_total{code="no-node",op="create"}`])
		require.Equal(t, "1", s[`zkrecipes_request_errors_total{code="connection-loss",op="delete"}`])
		require.NotContains(t, s, `zkrecipes_request_errors_total{code="no-node",op="exists"}`)
		for _, op := range wire.OpNames() {
			require.Contains(t, s, `zkrecipes_request_seconds_count{op="`+op+`"}`)
		}
		require.Equal(t, "0", s[`zkrecipes_request_seconds_count{op="acl"}`])
		_, _, err = client.ACL(t.Context(), "/a")
		require.ErrorIs(t, err, zk.ErrNoNode)
		s = scrape(t, c)
		require.Equal(t, "1", s[`zkrecipes_request_seconds_count{op="acl"}`])
		require.Equal(t, "1", s[`zkrecipes_request_errors_total{code="no-node",op="acl"}`])
	})
}

func TestCollector_CardinalityIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, c := dial(t, zktest.Run(t, zktest.InMemory()), "a", zkprom.WithMaxNames(3), zkprom.WithPaths())
		for i := range 10 {
			m, err := mutex.New(client, fmt.Sprintf("/lock-%d", i), mutex.WithTracerName("job"))
			require.NoError(t, err)
			h, err := m.Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, h.Release(t.Context()))
		}
		require.Equal(t, 4, testutil.CollectAndCount(c, "zkrecipes_holds"))
		s := scrape(t, c)
		require.Equal(t, "1", s[`zkrecipes_hold_seconds_count{name="job",path="/lock-2",recipe="mutex"}`])
		require.Equal(t, "7", s[`zkrecipes_hold_seconds_count{name="(other)",path="(other)",recipe="(other)"}`])
		require.Equal(t, "0", s[`zkrecipes_holds{name="(other)",path="(other)",recipe="(other)"}`])
	})
}

func TestCollector_Lints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, c := dial(t, zktest.Run(t, zktest.InMemory()), "a")
		lock(t, client)
		_, _, err := client.Get(t.Context(), "/none")
		require.Error(t, err)
		problems, err := testutil.CollectAndLint(c)
		require.NoError(t, err)
		require.Empty(t, problems)
	})
}

func TestNew_BadOptions(t *testing.T) {
	_, err := zkprom.New(zkprom.WithMaxNames(0), zkprom.WithAcquireBuckets(), zkprom.WithHoldBuckets(1, 1),
		zkprom.WithRequestBuckets(2, 1))
	require.ErrorContains(t, err, "0 names: want 1 or more")
	require.ErrorContains(t, err, "acquire buckets: want at least one bound")
	require.ErrorContains(t, err, "hold buckets [1 1]: want increasing bounds")
	require.ErrorContains(t, err, "request buckets [2 1]: want increasing bounds")
	_, err = zkprom.New(nil, zkprom.WithHoldBuckets(math.NaN()))
	require.ErrorContains(t, err, "option 0 is nil")
	require.ErrorContains(t, err, "hold buckets [NaN]: want increasing bounds")
	_, err = zkprom.New(zkprom.WithAcquireBuckets(1, 2), zkprom.WithHoldBuckets(1), zkprom.WithRequestBuckets(.1))
	require.NoError(t, err)
}

// A scraper that does not read the samples must not block the library, which would lose its locks.
func TestCollector_ScrapeThatHangs_BlocksNoCall(t *testing.T) {
	c, err := zkprom.New()
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		c.Tracer().HoldStart(t.Context(), zkrecipes.HoldStart{Recipe: "mutex", Name: name, ValidUntil: time.Now})
	}
	samples := make(chan prometheus.Metric)
	go func() {
		defer close(samples)
		c.Collect(samples)
	}()
	for m := range samples {
		if strings.Contains(m.Desc().String(), "hold_deadline_seconds") {
			break // the other one is waiting
		}
	}
	traced := make(chan struct{})
	go func() {
		defer close(traced)
		c.Tracer().AcquireStart(t.Context(), zkrecipes.AcquireStart{Recipe: "mutex", Name: "c"})
	}()
	select {
	case <-traced:
	case <-time.After(time.Minute):
		t.Error("the call waits for the scraper")
	}
	for m := range samples { // the rest of the scrape
		require.NotNil(t, m)
	}
}

// The address that a name resolves to is not a label, because in a container cluster it changes with each restart.
func TestCollector_Connects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := zkprom.New(zkprom.WithMaxNames(2))
		require.NoError(t, err)
		told := c.Tracer().Connect
		for _, server := range []string{
			"zk1:2181 (10.0.0.1)", "zk1:2181 (10.0.0.7)", "10.0.0.2:2181", "zk3:2181 (10.0.0.3)",
			"zk4:2181 (10.0.0.4)",
		} {
			told(zkrecipes.Connect{Server: server, Took: 20 * time.Millisecond, Outcome: "connected"})
		}
		told(zkrecipes.Connect{
			Server: "zk1:2181 (10.0.0.1)", Took: time.Second, Outcome: "timeout",
			Err: errors.New("no session within 1s"),
		})
		s := scrape(t, c)
		for series, count := range map[string]string{
			`{outcome="connected",server="zk1:2181"}`: "2", `{outcome="timeout",server="zk1:2181"}`: "1",
			`{outcome="connected",server="10.0.0.2:2181"}`: "1", `{outcome="connected",server="(other)"}`: "2",
		} {
			require.Equal(t, count, s["zkrecipes_connect_seconds_count"+series], series)
		}
		require.Equal(t, "1", s[`zkrecipes_connect_seconds_sum{outcome="timeout",server="zk1:2181"}`])
	})
}
