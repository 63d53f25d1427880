// Package leader runs examples/leader as separate processes against a real ZooKeeper. There is one test for each way of
// losing the leadership.
package leader

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/awake"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

// sessionTimeout is long enough that, even on a busy machine, only the faults of the tests end a session.
const sessionTimeout = 20 * time.Second

// long is for processes that must not lose their session, even if the machine is suspended for a while.
var long = []string{"-session-timeout", "40s"}

var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "leader-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir) // a directory left in /tmp is not a failure
	os.Exit(code)
}

// server starts a real ZooKeeper that ends sessions hardly later than they may.
func server(t *testing.T) *zkserver.Server {
	t.Helper()
	return zkserver.Start(t, zkserver.WithTickTime(500*time.Millisecond), zkserver.WithSessionTimeouts(0, 40*time.Second))
}

// watcher is the test's own client. It bypasses all proxies.
func watcher(t *testing.T, servers string) *conn.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c, err := conn.Dial(ctx, servers)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // it never fails
	return c
}

// candidates waits for two candidates, and returns them.
func candidates(t *testing.T, c *conn.Client, path string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	e, err := election.New(c, path)
	require.NoError(t, err)
	for {
		list, err := e.Queue(ctx)
		require.NoError(t, err, "waiting for candidates at %s", path)
		if len(list) == 2 {
			var names []string
			for _, p := range list {
				names = append(names, p.Name)
			}
			return names
		}
		pause(ctx)
	}
}

// pause waits between two checks of a condition.
func pause(ctx context.Context) {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
}

// TestPartition: the leader is cut off in every way a network can do it. It must report its loss before the next leader
// reports its election. After the partition it is a candidate again, and follows.
func TestPartition(t *testing.T) {
	const pairs, rounds = 2, 2 // a fault in each
	zk := server(t)
	faults := map[string]func(*proxy.Proxy){
		"both":     func(p *proxy.Proxy) { p.Stall(proxy.Both) },
		"requests": func(p *proxy.Proxy) { p.Stall(proxy.ToServer) },
		"replies":  func(p *proxy.Proxy) { p.Stall(proxy.ToClient) },
		"refused":  func(p *proxy.Proxy) { p.Refuse(); p.Cut() },
	}
	names := []string{"both", "requests", "replies", "refused"}
	leads := make(chan time.Duration, pairs*rounds)
	t.Run("rounds", func(t *testing.T) {
		for pair := range pairs {
			t.Run(fmt.Sprint(pair), func(t *testing.T) {
				t.Parallel()
				path := fmt.Sprintf("/partition/%d", pair)
				own := watcher(t, zk.Addr())
				links := []*proxy.Proxy{proxy.Start(t, zk.Addr()), proxy.Start(t, zk.Addr())}
				procs := []*process{start(t, "a", links[0].Addr(), path), nil}
				elected := procs[0].event("elected")
				procs[1] = start(t, "b", links[1].Addr(), path)
				for round := range rounds {
					old, next := procs[round%2], procs[(round+1)%2]
					candidates(t, own, path)
					cut := time.Now()
					faults[names[pair*rounds+round]](links[round%2])
					lost := old.event("lost")
					won := next.event("elected")
					require.Equal(t, elected.token, lost.token, "the term that was lost")
					require.Greater(t, won.token, lost.token, "the next term has a larger token")
					// The old leader did not run from its deadline on, which is before the margin.
					if overlap := lost.at.Sub(won.at); overlap > 0 {
						still := awake.Longest(cut, time.Now())
						require.Greater(t, still, overlap+sessionTimeout/20, "round %d: lost at %v, the next was elected at %v",
							round, lost.at, won.at)
						t.Logf("round %d says nothing: the machine stood still for %v", round, still)
					}
					require.Equal(t, "deadline", lost.reason)
					leads <- won.at.Sub(lost.at)
					heal(t, links[round%2])
					old.follows(next.id)
					elected = won
				}
			})
		}
	})
	close(leads)
	var ahead []time.Duration
	for d := range leads {
		ahead = append(ahead, d)
	}
	require.Len(t, ahead, pairs*rounds)
	slices.Sort(ahead)
	require.Positive(t, ahead[len(ahead)/2])
	t.Logf("%d rounds, lost before elected by at least %v, median %v, at most %v",
		len(ahead), ahead[0], ahead[len(ahead)/2], ahead[len(ahead)-1])
}

func heal(t *testing.T, p *proxy.Proxy) {
	t.Helper()
	p.Heal()
	require.NoError(t, p.Accept())
}

// TestKill: a killed leader has a successor once its session has expired. In between, observers see that there is no
// leader.
func TestKill(t *testing.T) {
	t.Parallel()
	zk := server(t)
	a := start(t, "a", zk.Addr(), "/kill")
	old := a.event("elected")
	b := start(t, "b", zk.Addr(), "/kill")
	follower := start(t, "f", zk.Addr(), "/kill", "-follow")
	follower.follows("a")
	candidates(t, watcher(t, zk.Addr()), "/kill")
	killed := time.Now()
	a.signal(syscall.SIGKILL)
	won := b.event("elected")
	require.Greater(t, won.token, old.token)
	none, now := follower.follows("none"), follower.follows("b")
	require.False(t, none.at.After(now.at))
	t.Logf("hand-over after kill -9: %v with a session timeout of %v", won.seen.Sub(killed), sessionTimeout)
}

// TestStop: a leader that is stopped or interrupted hands over and exits with 0. Each hand-over takes a few
// milliseconds.
func TestStop(t *testing.T) {
	const rounds = 21
	zk := server(t)
	own := watcher(t, zk.Addr())
	follower := start(t, "f", zk.Addr(), "/stop", append(long, "-follow")...)
	leading := start(t, "p0", zk.Addr(), "/stop", long...)
	leading.event("elected")
	var took []time.Duration
	for round := range rounds {
		next := start(t, fmt.Sprintf("p%d", round+1), zk.Addr(), "/stop", long...)
		candidates(t, own, "/stop")
		follower.follows(leading.id)
		signal := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[round%2]
		from := time.Now()
		leading.signal(signal)
		won := next.event("elected")
		took = append(took, awake.Between(from, won.seen))
		resigned := leading.event("resigned")
		require.False(t, resigned.at.After(won.at))
		leading.event("stopped")
		require.Equal(t, 0, leading.exit(), "%s", leading.stderr.String())
		follower.follows("none")
		leading = next
	}
	slices.Sort(took)
	median := took[len(took)/2]
	t.Logf("hand-over after an interrupt: median %v, at most %v, %d rounds", median, took[len(took)-1], rounds)
	require.Less(t, median, 200*time.Millisecond) // generous for a slow machine: a session would take seconds to expire
}

// TestFreeze: a leader that was frozen, as in a suspended machine, learns of its loss when it resumes.
func TestFreeze(t *testing.T) {
	t.Parallel()
	zk := server(t)
	a := start(t, "a", zk.Addr(), "/freeze")
	old := a.event("elected")
	b := start(t, "b", zk.Addr(), "/freeze")
	candidates(t, watcher(t, zk.Addr()), "/freeze")
	a.signal(syscall.SIGSTOP)
	won := b.event("elected")
	require.Greater(t, won.token, old.token)
	woken := time.Now()
	a.signal(syscall.SIGCONT)
	lost := a.event("lost")
	require.Contains(t, []string{"deadline", "expired"}, lost.reason)
	require.Equal(t, old.token, lost.token)
	a.follows("b")
	require.Equal(t, 1, a.count("elected"), "it must not have led again")
	t.Logf("knew %v after it was woken that it had lost", lost.seen.Sub(woken))
}

// TestNodeDeleted: an operator deletes the leader's node. The leader notices, and queues again behind the others.
func TestNodeDeleted(t *testing.T) {
	zk := server(t)
	own := watcher(t, zk.Addr())
	a := start(t, "a", zk.Addr(), "/deleted", long...)
	old := a.event("elected")
	b := start(t, "b", zk.Addr(), "/deleted", long...)
	candidates(t, own, "/deleted")
	e, err := election.New(own, "/deleted")
	require.NoError(t, err)
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	require.NoError(t, own.Delete(t.Context(), leader.Path, -1))
	lost := a.event("lost")
	require.Equal(t, "node-deleted", lost.reason)
	require.Equal(t, old.token, lost.token)
	require.Greater(t, b.event("elected").token, old.token)
	require.Equal(t, []string{"b", "a"}, candidates(t, own, "/deleted"))
}
