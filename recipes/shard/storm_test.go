package shard_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var (
	runs    = flag.Int("runs", bubble.Rounds(60), "random runs of TestStorm")
	seed    = flag.Uint64("seed", 1, "seed of the first of them")
	verbose = flag.Bool("storm", false, "log every fault of the random runs")
)

// TestMain lets the heap grow, because the tests open many connections with large buffers.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	m.Run()
}

// TestStorm plays random runs: members join, leave, restart and crash, while faults of all kinds occur. No shard ever
// has two live holds. When all is quiet again, every shard is served by the member that the plan names, the members are
// in balance, and the plan no longer changes.
//
//	go test ./recipes/shard -run TestStorm -runs 5000 -timeout 0
func TestStorm(t *testing.T) {
	t.Parallel()
	first := *seed
	for n := first; n < first+uint64(*runs); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { playStorm(t, n) })
		})
	}
}

// storm is one random run.
type storm struct {
	*fleet
	random *rand.Rand
	lives  int              // of members; they number the clients
	ids    []string         // of members that may run
	alive  map[string]*mate // by id
	undo   []undo
	grace  bool
	end    time.Time
}

// undo ends a fault that lasts.
type undo struct {
	at time.Time
	do func()
}

func playStorm(t *testing.T, seed uint64) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("again: go test ./recipes/shard -run TestStorm -runs 1 -seed %d -storm -v", seed)
		}
	}()
	random := rand.New(rand.NewPCG(seed, 0))
	srv := zktest.Run(t, zktest.InMemory(), zktest.WithTickTime(tick), zktest.WithHistory(200),
		zktest.WithContainerCheck(time.Duration(1+random.IntN(60))*time.Second))
	s := &storm{
		fleet: newFleet(t, 1+random.IntN(24), srv), random: random, alive: map[string]*mate{},
		grace: random.IntN(3) == 0,
	}
	for i := range 2 + random.IntN(4) {
		s.ids = append(s.ids, fmt.Sprintf("%c", 'a'+i))
	}
	for _, id := range s.ids[:1+random.IntN(len(s.ids))] {
		s.revive(id)
	}
	s.end = time.Now().Add(5 * time.Minute)
	total := 0
	for _, b := range blows {
		total += b.weight
	}
	for time.Now().Before(s.end) {
		s.wait(s.within(6 * time.Second))
		n := random.IntN(total)
		for _, b := range blows {
			if n -= b.weight; n < 0 {
				s.blow(b)
				break
			}
		}
	}
	for _, u := range s.undo {
		u.do()
	}
	s.quiet()
	s.fleet.end()
	s.judge()
}

func (s *storm) within(longest time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(int64(longest)))
}

// wait lets time pass and undoes the faults that are due.
func (s *storm) wait(d time.Duration) {
	until := time.Now().Add(d)
	for {
		next, at := -1, until
		for i, u := range s.undo {
			if u.at.Before(at) {
				next, at = i, u.at
			}
		}
		time.Sleep(time.Until(at))
		if next < 0 {
			return
		}
		s.undo[next].do()
		s.undo = slices.Delete(s.undo, next, next+1)
	}
}

// later undoes a fault after a while.
func (s *storm) later(longest time.Duration, do func()) {
	s.undo = append(s.undo, undo{time.Now().Add(s.within(longest)), do})
}

// blow is one thing that happens to a member that is alive, or to the server.
type blow struct {
	name   string
	weight int
	do     func(s *storm, m *mate)
}

func (s *storm) blow(b blow) {
	id := s.ids[s.random.IntN(len(s.ids))]
	m := s.alive[id]
	if m == nil {
		s.revive(id)
		return
	}
	if *verbose {
		s.Logf("%12v %s: %s", time.Since(s.start), m.label, b.name)
	}
	b.do(s, m)
}

// revive starts a member with its own client. Its function behaves at random.
func (s *storm) revive(id string) {
	s.lives++
	var opts []shard.Option
	if s.grace {
		opts = append(opts, shard.WithReturnGrace(grace))
	}
	m := s.prepareAs(fmt.Sprintf("%s%d", id, s.lives), id, opts...)
	lingers, fails := s.random.IntN(3) == 0, s.random.IntN(10) == 0
	if lingers {
		m.linger = s.within(3 * time.Second)
	}
	broken := time.Now().Add(s.within(5 * time.Second))
	m.serve = func(ctx context.Context, sh *shard.Shard) error {
		if fails && time.Now().Before(broken) {
			return errors.New("not yet")
		}
		<-ctx.Done()
		return nil
	}
	if *verbose {
		s.Logf("%12v %s: starts", time.Since(s.start), m.label)
	}
	m.run(shard.List(s.shards...))
	s.alive[id] = m
}

var requests = []zktest.Op{
	zktest.OpAny, zktest.OpAny, zktest.OpCreate, zktest.OpDelete, zktest.OpDelete, zktest.OpGetChildren2,
	zktest.OpGetData, zktest.OpSync, zktest.OpMulti, zktest.OpMulti, zktest.OpExists, zktest.OpConnect,
	zktest.OpSetWatches, zktest.OpPing, zktest.OpCreateContainer,
}

// rule applies an action to the next requests of a member.
func (s *storm) rule(m *mate, a zktest.Action) {
	r := s.srv.Intercept(zktest.Match{
		From: zktest.Label(m.label), Op: requests[s.random.IntN(len(requests))], Times: 1 + s.random.IntN(3),
		Skip: s.random.IntN(5),
	}, a)
	s.later(30*time.Second, r.Remove)
}

var blows = []blow{
	{"leaves", 2, func(s *storm, m *mate) {
		delete(s.alive, m.id)
		go func() { _ = m.shards.Leave(s.Context()) }() // the test may have ended
	}},
	{"stops", 2, func(s *storm, m *mate) { delete(s.alive, m.id); m.stop() }},
	{"restarts", 3, func(s *storm, m *mate) { m.stop(); s.revive(m.id) }},
	{"crashes", 2, func(s *storm, m *mate) {
		delete(s.alive, m.id)
		s.crash(m)
		s.undo = append(s.undo, undo{time.Now().Add(2 * bubble.Timeout), m.stop})
	}},
	{"freezes", 3, func(s *storm, m *mate) {
		s.crash(m)
		s.later(2*bubble.Timeout, func() { s.srv.Heal(zktest.Label(m.label)) })
	}},
	{"is cut off", 2, func(s *storm, m *mate) {
		s.srv.Refuse(zktest.Label(m.label))
		s.srv.Cut(zktest.Label(m.label))
		s.later(2*bubble.Timeout, func() { s.srv.Accept(zktest.Label(m.label)) })
	}},
	{"is not heard", 1, func(s *storm, m *mate) {
		s.srv.Stall(zktest.Label(m.label), zktest.ToServer)
		s.later(2*bubble.Timeout, func() { s.srv.Heal(zktest.Label(m.label)) })
	}},
	{"hears nothing", 1, func(s *storm, m *mate) {
		s.srv.Stall(zktest.Label(m.label), zktest.FromServer)
		s.later(2*bubble.Timeout, func() { s.srv.Heal(zktest.Label(m.label)) })
	}},
	{"reconnects", 2, func(s *storm, m *mate) { s.srv.Cut(zktest.Label(m.label)) }},
	{"expires", 2, func(s *storm, m *mate) { s.expire(s.srv.SessionOf(m.label)) }},
	{"all expire", 1, func(s *storm, _ *mate) {
		for _, session := range s.srv.Sessions() {
			s.expire(session.ID)
		}
	}},
	{"request lost", 3, func(s *storm, m *mate) { s.rule(m, zktest.DropRequest()) }},
	{"reply lost", 4, func(s *storm, m *mate) { s.rule(m, zktest.DropReply()) }},
	{"late", 2, func(s *storm, m *mate) { s.rule(m, zktest.Delay(s.within(bubble.Timeout/2))) }},
	{"late reply", 2, func(s *storm, m *mate) { s.rule(m, zktest.HoldReply(s.within(bubble.Timeout/2))) }},
	{"leader is deposed", 2, func(s *storm, _ *mate) { s.depose() }},
	{"leader is deposed as it writes", 3, func(s *storm, _ *mate) {
		r := s.srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "/plan$"},
			zktest.Before(func(zktest.Request) { s.depose() }))
		s.later(30*time.Second, r.Remove)
	}},
	{"plan deleted", 2, func(s *storm, _ *mate) { _ = s.srv.Delete(path + "/plan") }},
	{"plan torn", 1, func(s *storm, _ *mate) { _ = s.srv.Set(path+"/plan", []byte(`{"owners":{"a":["s0`)) }},
	{"plan wrong", 2, func(s *storm, _ *mate) { _ = s.srv.Set(path+"/plan", s.wrong()) }},
	{"member deleted", 1, func(s *storm, m *mate) { _ = s.srv.Delete(path + "/members/" + m.id) }},
	{"reap", 1, func(s *storm, _ *mate) { s.srv.Reap() }},
	{"server restarts", 1, func(s *storm, _ *mate) { s.srv.Restart() }},
	{"server is down", 1, func(s *storm, _ *mate) { s.srv.Down(); s.later(bubble.Timeout, s.srv.Up) }},
	{"server freezes", 1, func(s *storm, _ *mate) { s.srv.Freeze(); s.later(bubble.Timeout, s.srv.Thaw) }},
}

// wrong returns a plan that assigns shards arbitrarily, some of them twice, and names that are not shards.
func (s *storm) wrong() []byte {
	var owners []string
	for _, id := range s.ids {
		mine := []string{`"none"`}
		for _, name := range s.shards {
			if s.random.IntN(len(s.ids)) < 2 {
				mine = append(mine, fmt.Sprintf("%q", name))
			}
		}
		owners = append(owners, fmt.Sprintf("%q:[%s]", id, strings.Join(mine, ",")))
	}
	return fmt.Appendf(nil, `{"owners":{%s}}`, strings.Join(owners, ","))
}

// grace is how long shards wait for a member that restarts, in the runs that have a grace. It starts when the node of
// the member is gone.
const grace = 20 * time.Second

// quiet bounds how long it takes until all is in order once nothing happens any more: a session of a member that has
// crashed expires, the members settle, and functions stop. Members that reconnect may have to wait for that, and a
// function that failed waits for its pause.
const quiet = 3 * bubble.Timeout

// quiet ends all faults, and requires that all gets into order.
func (s *storm) quiet() {
	s.Helper()
	for _, m := range s.members { // those that have crashed stay away
		if s.alive[m.id] == m {
			s.srv.Heal(zktest.Label(m.label))
		}
		s.srv.Accept(zktest.Label(m.label))
	}
	if len(s.alive) == 0 {
		s.revive(s.ids[0])
	}
	from, last, quiet := time.Now(), time.Duration(0), quiet
	// A member that leaves hands over its shards one by one, and then others may move to members that have joined: each
	// waits for a second at most.
	quiet += 2 * time.Duration(len(s.shards)) * time.Second
	if s.grace {
		quiet += grace
	}
	for time.Since(from) < quiet {
		if s.inOrder() != "" {
			last = time.Since(from)
		}
		s.pass(100 * time.Millisecond)
	}
	require.Empty(s, s.inOrder(), "not in order after %v of quiet\n%s\n%s", quiet, s.planned(), s.locks())
	s.Logf("%d members, %d shards, %d lives: in order after %v, %d starts",
		len(s.alive), len(s.shards), s.lives, last, s.started())
	before, starts := s.planned(), s.started()
	s.pass(time.Minute)
	require.Equal(s, before, s.planned(), "the plan rests")
	require.Equal(s, starts, s.started(), "nothing moves")
	require.Empty(s, s.inOrder())
}

// locks lists the contenders of each lock.
func (s *storm) locks() string {
	var list []string
	for _, n := range s.srv.Tree(path + "/own") {
		if n.Stat.EphemeralOwner != 0 {
			list = append(list, fmt.Sprintf("%s of %s in session %#x", n.Path, n.Data, n.Stat.EphemeralOwner))
		}
	}
	return strings.Join(list, "\n")
}

// inOrder returns what is not in order, or "".
func (s *storm) inOrder() string {
	loads, refused := s.load(), false
	for _, m := range s.srv.Tree(path + "/members") { // a function that failed has moved its shards
		refused = refused || strings.Contains(string(m.Data), "refuses")
	}
	least, most := len(s.shards), 0
	for id := range s.alive {
		least, most = min(least, loads[id]), max(most, loads[id])
	}
	switch owners := s.owners(); {
	case len(owners) < len(s.shards):
		return fmt.Sprintf("%d of %d shards are served: %v", len(owners), len(s.shards), owners)
	case most-least > 1 && !refused:
		return fmt.Sprintf("no balance: %v", loads)
	default:
		for name, id := range owners {
			if s.alive[id] == nil {
				return fmt.Sprintf("%s is served by %s, which is not there", name, id)
			}
		}
	}
	return ""
}
