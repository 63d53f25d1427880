package foreign

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/chaos"
	"github.com/zkrecipes/zkrecipes/integration/chaos/resource"
	"github.com/zkrecipes/zkrecipes/integration/kit/peer"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/integration/others/contest"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// kazooSession is how long a process that is killed blocks the others, and long enough for the pauses of a loaded
// machine.
const kazooSession = 20 * time.Second

// kazooServers start servers that grant such a timeout.
var kazooServers = map[string]func(t *testing.T) (addr string){
	"zktest": func(t *testing.T) string {
		t.Helper()
		return zktest.Run(t, zktest.WithTickTime(time.Second/2), zktest.WithSessionTimeouts(time.Second, kazooSession)).Addr()
	},
	"zookeeper": func(t *testing.T) string {
		t.Helper()
		return zkserver.Start(t, zkserver.WithSessionTimeouts(0, kazooSession)).Addr()
	},
}

// kazooPeer starts a process of kazoo.
func kazooPeer(t *testing.T, addr string, event func(check.Event)) *peer.Peer {
	t.Helper()
	interpreter := python(t, "ssl", "apt-get install python3 python3-pip")
	p := exec.Command(interpreter, "testdata/kazoo_peer.py", addr, strconv.FormatInt(kazooSession.Milliseconds(), 10))
	p.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+kazooSource(t, interpreter))
	return peer.Start(t, p, event)
}

// ours are the recipes that share a path with kazoo, by the kind that the peer uses.
type ours struct {
	take  func(context.Context) (*zkrecipes.Hold, error)
	queue func(context.Context) ([]zkrecipes.Participant, error)
}

func recipesBesideKazoo(t *testing.T, c *conn.Client, at string) map[string]ours {
	t.Helper()
	m, err := mutex.New(c, at, mutex.WithKazoo())
	require.NoError(t, err)
	e, err := election.New(c, at, election.WithKazoo())
	require.NoError(t, err)
	l, err := rwlock.New(c, at, rwlock.WithKazoo())
	require.NoError(t, err)
	s, err := semaphore.New(c, at, 1, semaphore.WithKazoo())
	require.NoError(t, err)
	contenders := func(ctx context.Context) (list []zkrecipes.Participant, err error) {
		queue, err := l.Queue(ctx)
		for _, c := range queue {
			list = append(list, c.Participant)
		}
		return list, err
	}
	return map[string]ours{
		"mutex": {m.Lock, m.Queue},
		"election": {func(ctx context.Context) (*zkrecipes.Hold, error) {
			term, err := e.Campaign(ctx)
			if err != nil {
				return nil, err
			}
			return term.Hold, nil
		}, e.Queue},
		"read":      {l.RLock, contenders},
		"write":     {l.Lock, contenders},
		"semaphore": {func(ctx context.Context) (*zkrecipes.Hold, error) { return s.Acquire(ctx, 1) }, s.Queue},
	}
}

// Each side waits for a holder of the other, both list the same queue in the same order, and a killed holder no longer
// blocks anybody once its session has expired.
func TestKazooBesideUs_Arrival(t *testing.T) {
	for name, start := range kazooServers {
		t.Run(name, func(t *testing.T) {
			addr := start(t)
			c, err := conn.Dial(t.Context(), addr, conn.WithIdentity("go"), conn.WithSessionTimeout(kazooSession))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, c.Close()) })
			python := kazooPeer(t, addr, nil)
			for _, kinds := range [][2]string{ // ours, kazoo's
				{"mutex", "mutex"},
				{"election", "election"},
				{"write", "write"},
				{"write", "read"},
				{"read", "write"},
				{"semaphore", "semaphore"},
			} {
				t.Run(strings.Join(kinds[:], " and "), func(t *testing.T) {
					t.Parallel() // it mostly waits for sessions to expire
					arrival{t, c, python, addr, "/arrival/" + strings.Join(kinds[:], "-"), kinds[0], kinds[1]}.run()
				})
			}
		})
	}
}

type arrival struct {
	*testing.T
	client     *conn.Client
	python     *peer.Peer
	addr, path string
	ours, its  string // kinds
}

type grant struct {
	hold *zkrecipes.Hold
	err  error
}

func (a arrival) run() {
	ctx, cancel := context.WithTimeout(a.Context(), 3*time.Minute)
	defer cancel()
	side := recipesBesideKazoo(a.T, a.client, a.path)[a.ours]
	ask := func(p *peer.Peer, words ...any) {
		a.Helper()
		_, err := p.Ask(ctx, words...)
		require.NoError(a, err)
	}
	start := func() <-chan grant {
		granted := make(chan grant, 1)
		go func() {
			h, err := side.take(ctx)
			granted <- grant{h, err}
		}()
		return granted
	}

	// kazoo is first.
	name := "py-" + path.Base(a.path)
	ask(a.python, "take", name, a.its, a.path, 1)
	granted := start()
	a.sameQueue(ctx, side, name, "go")
	require.Empty(a, granted)
	ask(a.python, "give", name)
	g := <-granted
	require.NoError(a, g.err)

	// Now our client is granted, and kazoo waits.
	waiting := a.python.Begin("take", name, a.its, a.path, 1)
	a.sameQueue(ctx, side, "go", name)
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	_, err := waiting(short)
	stop()
	require.ErrorIs(a, err, context.DeadlineExceeded, "kazoo was granted beside ours")
	require.NoError(a, g.hold.Release(ctx))
	_, err = waiting(ctx)
	require.NoError(a, err)
	ask(a.python, "give", name)

	// A kazoo holder is killed.
	doomed := kazooPeer(a.T, a.addr, nil)
	ask(doomed, "take", "doomed", a.its, a.path, 1)
	granted = start()
	a.sameQueue(ctx, side, "doomed", "go")
	doomed.Kill()
	require.Empty(a, granted)
	g = <-granted
	require.NoError(a, g.err)
	require.NoError(a, g.hold.Release(ctx))
}

// sameQueue waits until exactly these are in the queue, as each side lists it.
func (a arrival) sameQueue(ctx context.Context, side ours, ids ...string) {
	a.Helper()
	for {
		queue, err := side.queue(ctx)
		require.NoError(a, err)
		var names []string
		for _, p := range queue {
			names = append(names, p.Name)
		}
		if a.its == "semaphore" { // kazoo does not list waiters, and writes its name as Python prints bytes
			for i, name := range names {
				names[i] = strings.TrimSuffix(strings.TrimPrefix(name, "b'"), "'")
			}
			if slices.Equal(slices.Compact(names), ids) { // our client may have its lease and still be at the door
				return
			}
			continue
		}
		text, err := a.python.Ask(ctx, "who", a.lister(), a.path, 1)
		require.NoError(a, err)
		if slices.Equal(names, ids) && slices.Equal(strings.Fields(text), ids) {
			return
		}
	}
}

// lister returns the kind of kazoo lock that lists all contenders: a reader does not list readers with other names.
func (a arrival) lister() string {
	if a.its == "read" {
		return "write"
	}
	return a.its
}

// Two processes on each side contend, and are killed in turn while they hold or wait. MIXED_SECTIONS=10000 is the long
// form; see `make nightly PART=contention`.
func TestKazooBesideUs_ContentionWithKills(t *testing.T) {
	addr := kazooServers["zookeeper"](t)
	worker, err := chaos.Build(t.TempDir())
	require.NoError(t, err)
	socket := filepath.Join(t.TempDir(), "s")
	sets, err := resource.Serve(socket)
	require.NoError(t, err)
	t.Cleanup(sets.Close)
	client, err := conn.Dial(t.Context(), addr, conn.WithSessionTimeout(kazooSession))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })

	mixes := []struct {
		peers   [2]string // kinds
		ours    []string
		limit   int
		parents []string
	}{
		{[2]string{"mutex", "mutex"}, []string{"-recipe", "mutex"}, 1, []string{""}},
		{[2]string{"read", "write"}, []string{"-recipe", "rwlock", "-writes", "0.4"}, 0, []string{""}},
		{[2]string{"semaphore", "semaphore"}, []string{"-recipe", "semaphore", "-limit", "3"}, 3, []string{"", "-__lock__"}},
		{[2]string{"election", "election"}, []string{"-recipe", "election"}, 1, []string{""}},
		{[2]string{"semaphore", "semaphore"}, []string{"-recipe", "semaphore", "-limit", "1"}, 1, []string{"", "-__lock__"}},
	}
	if !contest.Long() {
		mixes = mixes[1:3]
	}
	total, kills := 0, 0
	for i, m := range mixes {
		t.Run(fmt.Sprintf("%s and %s, limit %d", m.peers[0], m.peers[1], m.limit), func(t *testing.T) {
			root := fmt.Sprint("/mixed/", i)
			lock := root + "/lock"
			c := contest.Contest{
				Ours: func(id string) *exec.Cmd {
					return exec.CommandContext(t.Context(), worker, append([]string{
						"-kazoo", "-id", id, "-servers", addr, "-path", lock, "-sets", root,
						"-resource", socket, "-session-timeout", kazooSession.String(), "-section", "4ms",
					}, m.ours...)...)
				},
				Theirs: func(id string, event func(check.Event)) func() {
					p := kazooPeer(t, addr, event)
					p.Loop(t, id, m.peers[id[len("peer-")]-'0'], lock, max(m.limit, 1), 1<<30, socket)
					return p.Kill
				},
			}
			c.Sections, c.Kills = contest.Length(len(mixes))
			r := c.Run(t)
			r.Judge(t, m.limit, sets.Set(root+"/deaf").Updates())
			if fenced := sets.Set(root + "/fenced"); fenced.Refused() > 0 || len(check.LostUpdates(fenced.Updates())) > 0 {
				t.Errorf("the fence refused %d tokens, %d updates lost", fenced.Refused(), len(check.LostUpdates(fenced.Updates())))
			}
			for _, parent := range m.parents {
				contest.Drained(t, client, lock+parent)
			}
			total, kills = total+len(r.Holds), kills+r.Kills
		})
	}
	t.Logf("%d sections, %d kills", total, kills)
}

// A kazoo candidate can be appointed, and our candidate ahead of it stands back. kazoo itself never stands back: a
// leader that is asked to appoint the one behind it keeps leading.
func TestKazooBesideUs_Appoint(t *testing.T) {
	const at = "/appoint/kazoo"
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	addr := kazooServers["zookeeper"](t)
	stand := func(id string) (*election.Election, func() (*election.Term, error)) {
		c, err := conn.Dial(ctx, addr, conn.WithIdentity(id), conn.WithSessionTimeout(kazooSession))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		e, err := election.New(c, at, election.WithKazoo(), election.WithStandBack())
		require.NoError(t, err)
		var term *election.Term
		var failed error
		led := make(chan struct{})
		go func() {
			defer close(led)
			term, failed = e.Campaign(ctx)
		}()
		return e, func() (*election.Term, error) { <-led; return term, failed }
	}
	leader, elected := stand("first")
	queue := func(names ...string) (now []zkrecipes.Participant) {
		require.Eventually(t, func() bool {
			var err error
			now, err = leader.Queue(ctx)
			require.NoError(t, err)
			return slices.EqualFunc(now, names, func(c zkrecipes.Participant, name string) bool { return c.Name == name })
		}, time.Minute, 10*time.Millisecond, "want %v", names)
		return now
	}
	term, err := elected()
	require.NoError(t, err)
	_, second := stand("second")
	queue("first", "second")
	python := kazooPeer(t, addr, nil)
	waiting := python.Begin("take", "py", "election", at, 1)
	require.NoError(t, leader.Appoint(ctx, term, queue("first", "second", "py")[2]))
	last := queue("first", "py", "second")[2]
	soon, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	err = leader.Appoint(soon, term, last)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "(py) is still ahead")
	require.NoError(t, term.Release(ctx))
	_, err = waiting(ctx)
	require.NoError(t, err)
	queue("py", "second")
	_, err = python.Ask(ctx, "give", "py")
	require.NoError(t, err)
	term, err = second()
	require.NoError(t, err)
	require.NoError(t, term.Release(ctx))
}
