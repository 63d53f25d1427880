// Package services runs the two services of the guides as separate processes against a real ZooKeeper: one that elects
// a leader, and one with a nightly job. It breaks them in each way, and checks their logs, metrics and answers.
package services

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/integration/kit/awake"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

const (
	sessionTimeout = 4 * time.Second
	scrapeInterval = time.Second
	limit          = 2 * time.Minute // bounds every wait for an event that must come
)

// stage contains everything that runs in the test.
type stage struct {
	t         *testing.T
	zk        *zkserver.Server
	program   string
	processes []*process
}

// set starts a server, two leaders and two nightly jobs.
func set(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, zk: zkserver.Start(t, zkserver.WithTickTime(500*time.Millisecond)), program: program(t)}
	for _, p := range []*process{
		{id: "a", job: "leader"},
		{id: "b", job: "leader"},
		{id: "c", job: "nightly"},
		{id: "d", job: "nightly"},
	} {
		p.t, p.address, p.link = t, freeAddress(t), proxy.Start(t, s.zk.Addr())
		p.start(s.program)
		t.Cleanup(p.stop)
		p.shows("connected", state("connected"))
		s.processes = append(s.processes, p)
	}
	return s
}

// leader waits until exactly one of the candidates leads and the other waits, and returns both.
func (s *stage) leader() (leads, waits *process) {
	s.t.Helper()
	a, b := s.processes[0], s.processes[1]
	a.eventually("one leads and one waits", func() bool {
		for _, pair := range [][2]*process{{a, b}, {b, a}} {
			first, err1 := pair[0].scrape()
			second, err2 := pair[1].scrape()
			if err1 == nil && err2 == nil && holds(first) && waiting(second) && state("connected")(first) &&
				state("connected")(second) {
				leads, waits = pair[0], pair[1]
				return true
			}
		}
		return false
	})
	return leads, waits
}

func holds(m metrics) bool   { return m[`zkrecipes_holds{name="leader",recipe="election"}`] == "1" }
func free(m metrics) bool    { return m[`zkrecipes_holds{name="leader",recipe="election"}`] == "0" }
func waiting(m metrics) bool { return m[`zkrecipes_waiting{name="leader",recipe="election"}`] == "1" }

func state(name string) func(metrics) bool {
	return func(m metrics) bool { return m[fmt.Sprintf(`zkrecipes_session_state{state=%q}`, name)] == "1" }
}

func lost(reason string) func(metrics) bool {
	return func(m metrics) bool {
		n := m[fmt.Sprintf(`zkrecipes_hold_losses_total{name="leader",reason=%q,recipe="election"}`, reason)]
		return n != "" && n != "0"
	}
}

// within checks how long something took, and logs it.
func (s *stage) within(most time.Duration, what string, from, to time.Time) {
	s.t.Helper()
	took := awake.Between(from, to)
	s.t.Logf("%-62s %6d ms", what, took.Milliseconds())
	require.LessOrEqual(s.t, took, most, what)
}

// excerpt logs what a process logged.
func (s *stage) excerpt(p *process, since time.Time) {
	for _, text := range p.log(since) {
		_, text, _ = strings.Cut(text, " ") // without the day
		s.t.Logf("  %s | %s", p.id, text)
	}
}

// Each fault appears in the log, and in the metrics within one scrape. Then an operator examines the run: the panels of
// the dashboard, and the alerts.
func TestServices_FaultsAreSeenWithinOneScrape(t *testing.T) {
	s := set(t)
	p := s.prometheus()
	from := time.Now()
	s.partition()
	s.kill()
	s.freeze()
	s.restart()
	to := time.Now()
	t.Run("dashboard", func(t *testing.T) {
		if p == nil {
			t.Skip("no Prometheus: install it")
		}
		p.show(t, from, to)
		fired := p.fired(t, from, to)
		t.Logf("alerts: %v", slices.Sorted(maps.Keys(fired)))
		require.True(t, fired["ZooKeeperHoldLost deadline"], "the loss of the partition")
		require.False(t, fired["ZooKeeperNoLeader"], "the next leads after a session timeout")
	})
}

// The packets of the leader are lost, in both directions. It is not notified, and detects it after 3/8 of the session
// timeout.
func (s *stage) partition() {
	leads, waits := s.leader()
	start := time.Now()
	leads.link.Stall(proxy.Both)
	suspended := leads.logged(start, "zookeeper: suspended", "holds=1", "left=", "no answer to a sync")
	s.within(sessionTimeout*3/8+scrapeInterval, "partition: the leader finds out after", start, suspended)
	s.within(scrapeInterval, "partition: its metrics show it after", suspended,
		leads.shows("suspended", state("suspended")))
	s.within(scrapeInterval, "partition: Watch says that its view is not current after", suspended,
		leads.logged(start, "observed", "current=false"))
	leads.eventually("it says that it is not well", func() bool {
		status, body, err := leads.get("/readyz")
		if err == nil {
			require.Equal(s.t, http.StatusServiceUnavailable, status, body)
			s.t.Logf("  %s /readyz | %d %s", leads.id, status, strings.TrimSpace(body))
		}
		return err == nil
	})
	ended := leads.logged(start, "zookeeper: hold lost", "reason=deadline", "token=", "held=")
	s.within(scrapeInterval, "partition: the metrics show the loss after", ended,
		leads.shows("lost, deadline", lost("deadline")))
	s.within(scrapeInterval, "partition: the metrics show no hold after", ended, leads.shows("no hold", free))
	elected := waits.logged(start, "INFO elected")
	require.False(s.t, elected.Before(ended.Add(-scrapeInterval/10)), "the next leads before the loss")
	s.within(scrapeInterval, "partition: the metrics show the next leader after", elected, waits.shows("a hold", holds))
	leads.link.Heal()
	leads.shows("connected", state("connected"))
	s.excerpt(leads, start)
}

// The leader is killed. Its metrics disappear at once, and the next leader appears in its own.
func (s *stage) kill() {
	leads, waits := s.leader()
	start := time.Now()
	leads.signal(syscall.SIGKILL)
	leads.eventually("it answers no scrape", func() bool { _, err := leads.scrape(); return err != nil })
	s.within(scrapeInterval, "kill: the scrape fails after", start, time.Now())
	elected := waits.logged(start, "INFO elected")
	s.within(scrapeInterval, "kill: the metrics show the next leader after", elected, waits.shows("a hold", holds))
	s.excerpt(waits, start)
	<-leads.exited
	leads.start(s.program)
	s.leader()
}

// The leader is frozen until its session has expired. It finds out as soon as it resumes.
func (s *stage) freeze() {
	leads, waits := s.leader()
	start := time.Now()
	leads.signal(syscall.SIGSTOP)
	leads.eventually("it answers no scrape", func() bool { _, err := leads.scrape(); return err != nil })
	s.within(2*scrapeInterval, "freeze: the scrape fails after", start, time.Now()) // it times out after one
	waits.logged(start, "INFO elected")
	waits.shows("a hold", holds)
	resumed := time.Now()
	leads.signal(syscall.SIGCONT)
	s.within(scrapeInterval, "freeze: the metrics show the loss after", resumed,
		leads.shows("a loss, and no hold", func(m metrics) bool {
			return free(m) && (lost("expired")(m) || lost("deadline")(m))
		}))
	s.within(2*scrapeInterval, "freeze: the log has the loss after", resumed, leads.logged(start, "zookeeper: hold lost"))
	leads.logged(start, "zookeeper: session lost")
	s.leader()
	s.excerpt(leads, start)
}

// The server is stopped and restarted, so all connections end.
func (s *stage) restart() {
	s.leader()
	start := time.Now()
	require.NoError(s.t, s.zk.Kill())
	down := time.Now()
	for _, p := range s.processes {
		s.within(scrapeInterval, "restart: the metrics of "+p.id+" show it after", down,
			p.shows("not connected", func(m metrics) bool {
				return !state("connected")(m)
			}))
	}
	for _, p := range s.processes[:2] {
		at := p.logged(start, "observed", "current=false")
		s.within(scrapeInterval, "restart: Watch of "+p.id+" says that its view is not current after", start, at)
	}
	require.NoError(s.t, s.zk.Restart())
	up := time.Now()
	for _, p := range s.processes {
		s.within(4*scrapeInterval, "restart: the metrics of "+p.id+" show the connection after", up,
			p.shows("connected", state("connected")))
	}
	leads, _ := s.leader()
	s.excerpt(leads, start)
	s.excerpt(s.processes[2], start)
}
