//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// dial connects the test itself.
func dial(t *testing.T, srv *zktest.Server, options ...conn.Option) *conn.Client {
	t.Helper()
	c, err := conn.Dial(t.Context(), srv.Addr(), append(options, conn.WithLogger(silent))...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// locked makes the test itself hold a mutex, under a name.
func locked(t *testing.T, srv *zktest.Server, path, id string) *zkrecipes.Hold {
	t.Helper()
	m, err := mutex.New(dial(t, srv, conn.WithIdentity(id)), path)
	require.NoError(t, err)
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	return h
}

// leading makes the test itself the leader of an election, under a name.
func leading(t *testing.T, srv *zktest.Server, path, id string) *election.Term {
	t.Helper()
	e, err := election.New(dial(t, srv, conn.WithIdentity(id)), path)
	require.NoError(t, err)
	term, err := e.Campaign(t.Context())
	require.NoError(t, err)
	return term
}

// told is a zkr process that reports events by --events=3.
type told struct {
	*zkr
	events *bufio.Scanner
	late   float64 // seconds in which zkr did not run, as read by rest
}

// start starts zkr under a new label, and kills it if it outlives the test.
func start(t *testing.T, srv *zktest.Server, label string, args ...string) *told {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	z := command(t, address(t, srv, label), append(args[:1:1], append([]string{"--events=3"}, args[1:]...)...)...)
	z.ExtraFiles = []*os.File{write}
	require.NoError(t, z.Start())
	require.NoError(t, write.Close())
	t.Cleanup(func() { assert.NoError(t, read.Close()) })
	return &told{zkr: z, events: bufio.NewScanner(read)}
}

// until waits for an event and returns its keys.
func (s *told) until(t *testing.T, event string) map[string]any {
	t.Helper()
	for s.events.Scan() {
		last := map[string]any{}
		require.NoError(t, json.Unmarshal(s.events.Bytes(), &last), s.events.Text())
		name, ok := last["event"].(string)
		require.True(t, ok)
		if name == event {
			return last
		}
	}
	require.Failf(t, "no event", "%s\n%s", event, s.err.String())
	return nil
}

// rest returns the remaining events, except those that report a machine that is too busy.
func (s *told) rest(t *testing.T) (seen []string) {
	t.Helper()
	for s.events.Scan() {
		var line struct {
			Event   string
			Seconds float64
		}
		require.NoError(t, json.Unmarshal(s.events.Bytes(), &line))
		switch line.Event {
		case "late":
			s.late += line.Seconds
		case "suspect", "confirmed":
		default:
			seen = append(seen, line.Event)
		}
	}
	return seen
}

func TestLock_TellsWhereItWaits(t *testing.T) {
	srv := zktest.Run(t)
	first := start(t, srv, "a", "lock", "--id=alice", "/p", "--", "sleep", "300")
	first.until(t, "started")
	second := start(t, srv, "b", "lock", "/p", "--", "true")
	waits := second.until(t, "waiting")
	assert.InDelta(t, 2, waits["position"], 0)
	assert.Equal(t, "alice", waits["holder"])
	assert.Equal(t, 143, first.after(t, syscall.SIGTERM), "the program's status, as if zkr were not there")
	assert.Equal(t, 0, second.status(t))
}

func TestSignal_WhileWaitingWithdraws(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	h := locked(t, srv, "/p", "alice")
	for signal, status := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130, syscall.SIGHUP: 129} {
		z := start(t, srv, "a", "lock", "/p", "--", "touch", filepath.Join(t.TempDir(), "ran"))
		z.until(t, "waiting")
		assert.Equal(t, status, z.after(t, signal))
		assert.Empty(t, z.rest(t), "the program was not run")
		eventually(t, "nothing is left in the queue", func() bool { return len(srv.Children("/p")) == 1 })
	}
	require.NoError(t, h.Release(t.Context()))
}

func TestSignal_BeforeTheConnectionStops(t *testing.T) {
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	z := begin(t, silent.Addr().String(), "lock", "/p", "--", "true")
	c, err := silent.Accept()
	require.NoError(t, err)
	assert.Equal(t, 143, z.after(t, syscall.SIGTERM), z.err.String())
	require.NoError(t, errors.Join(c.Close(), silent.Close()))
}

func TestLoss_AsAFactKillsAtOnce(t *testing.T) {
	for name, lose := range map[string]func(srv *zktest.Server, node string){
		"expired": func(srv *zktest.Server, _ string) { srv.Expire(srv.SessionOf("a")) },
		"deleted": func(srv *zktest.Server, node string) { _ = srv.Delete(node) },
	} {
		t.Run(name, func(t *testing.T) {
			srv := zktest.Run(t)
			z := start(t, srv, "a", "lock", "/p", "--", "sleep", "300")
			acquired := z.until(t, "acquired")
			z.until(t, "started")
			node, _ := acquired["node"].(string)
			lose(srv, node)
			assert.Equal(t, exit.Lost, z.status(t))
			assert.Equal(t, []string{"kill", "lost", "exited"}, z.rest(t))
		})
	}
}

// TestLoss_AsAFactWithGrace runs a shell whose child has exec'd by the time of the signal: a forked child that has not
// yet reset the traps of its shell would swallow the signal.
func TestLoss_AsAFactWithGrace(t *testing.T) {
	srv := zktest.Run(t)
	z := start(t, srv, "a", "lock", "--loss-grace=10s", "/p", "--", "sh", "-c",
		"trap 'exit 0' TERM; sh -c 'echo ready; exec sleep 300' & wait")
	z.until(t, "started")
	eventually(t, "the program handles the signal", func() bool { return strings.Contains(z.out.String(), "ready") })
	srv.Expire(srv.SessionOf("a"))
	assert.Equal(t, exit.Lost, z.status(t), "also if the program ended well")
	assert.Equal(t, []string{"term", "lost", "exited"}, z.rest(t))
}

// TestLoss_KillsAfterTheGrace: processes that the signal did not end have the whole grace.
func TestLoss_KillsAfterTheGrace(t *testing.T) {
	t.Parallel()
	const grace = time.Second
	srv := zktest.Run(t)
	// If zkr is late by the lead, the guard kills the processes instead.
	z := start(t, srv, "a", "lock", "--loss-grace", grace.String(), "--grace=1", "--kill-lead=8", "/p", "--", "sh", "-c",
		"(trap '' TERM; echo ready; exec sleep 300) & trap 'exit 0' TERM; wait")
	z.until(t, "started")
	eventually(t, "the program handles the signal", func() bool { return strings.Contains(z.out.String(), "ready") })
	expired := time.Now()
	srv.Expire(srv.SessionOf("a"))
	z.until(t, "lost")
	kill := z.until(t, "kill")
	assert.Equal(t, "patience is over", kill["reason"])
	text, _ := kill["time"].(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, at.Sub(expired.Round(0)), grace)
	assert.Equal(t, exit.Lost, z.status(t))
	assert.Equal(t, []string{"exited"}, z.rest(t))
}

// TestLoss_GraceBeginsWithTheLoss: a zkr that is stopped late in the grace does not give the program a second one.
func TestLoss_GraceBeginsWithTheLoss(t *testing.T) {
	t.Parallel()
	need.Asked(t, "a quiet machine")
	const grace = 8 * time.Second
	srv := zktest.Run(t)
	z := start(t, srv, "a", "lock", "--loss-grace", grace.String(), "/p", "--", "sh", "-c",
		`trap '' TERM; echo "$$"; while :; do sleep 0.05; done`)
	acquired := z.until(t, "acquired")
	eventually(t, "the program ignores the signal", func() bool { return strings.HasSuffix(z.out.String(), "\n") })
	pid, err := strconv.Atoi(strings.TrimSpace(z.out.String()))
	require.NoError(t, err)
	node, _ := acquired["node"].(string)
	require.NoError(t, srv.Delete(node))
	z.until(t, "lost")
	lost := time.Now()
	<-time.After(grace * 3 / 4)
	require.NoError(t, z.Process.Signal(syscall.SIGSTOP))
	eventually(t, "the guard kills the program", func() bool { return gone(pid) })
	assert.Less(t, time.Since(lost), grace*13/8) // a second grace would end after 14/8
	assert.Equal(t, exit.Lost, z.after(t, syscall.SIGCONT))
}

func TestLoss_OnLossIgnoreLetsTheProgramRun(t *testing.T) {
	srv := zktest.Run(t)
	ready := filepath.Join(t.TempDir(), "ready")
	z := start(t, srv, "a", "lock", "--on-loss=ignore", "/p", "--", "sh", "-c",
		"until test -e "+ready+"; do sleep 0.02; done")
	z.until(t, "started")
	srv.Expire(srv.SessionOf("a"))
	z.until(t, "lost")
	require.NoError(t, os.WriteFile(ready, nil, 0o600))
	assert.Equal(t, exit.Lost, z.status(t))
	assert.Equal(t, []string{"exited"}, z.rest(t))
}

// TestLoss_ThatWasAvertedKillsAfterTheGrace: a program that ignores the signal does not keep the lock for good if a
// server confirms the lock after the signal.
func TestLoss_ThatWasAvertedKillsAfterTheGrace(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	z := start(t, srv, "a", "lock", "--session-timeout=36s", "--grace=15s", "/p", "--", "sh", "-c",
		`trap '' TERM; echo ready; while :; do sleep 0.05; done`)
	z.until(t, "started")
	eventually(t, "the program ignores the signal", func() bool { return strings.Contains(z.out.String(), "ready") })
	srv.Refuse(zktest.Label("a"))
	srv.Cut(zktest.Label("a"))
	z.until(t, "term")
	srv.Accept(zktest.Label("a"))
	z.until(t, "kill")
	assert.Equal(t, exit.Lost, z.status(t))
}

// TestPause_OfZkrEndsNothing: zkr used to stop the program as soon as zkr resumed, although servers answered.
func TestPause_OfZkrEndsNothing(t *testing.T) {
	t.Parallel()
	need.Asked(t, "a quiet machine")
	const timeout, pause = 8 * time.Second, 3400 * time.Millisecond
	srv := zktest.Run(t)
	z := start(t, srv, "a", "lock", "--session-timeout", timeout.String(), "/p", "--", "sleep", "300")
	group, _ := z.until(t, "started")["pgid"].(float64)
	require.Greater(t, group, 1.0)
	<-time.After(timeout / 4)
	all := func(s syscall.Signal) {
		require.NoError(t, errors.Join(syscall.Kill(-int(group), s), z.Process.Signal(s)))
	}
	all(syscall.SIGSTOP)
	<-time.After(pause)
	all(syscall.SIGCONT)
	for late := 0.0; late < 0.9*pause.Seconds(); { // a short one may have come before
		if late, _ = z.until(t, "late")["seconds"].(float64); late > 1.1*pause.Seconds() {
			t.Skipf("the machine is too busy: the pause took %v s", late)
		}
	}
	<-time.After(timeout * 3 / 8) // by then, contacts from after the pause count
	require.NoError(t, z.Process.Signal(syscall.SIGTERM))
	status, seen := z.status(t), z.rest(t)
	if status != 143 && z.late > timeout.Seconds()/8 {
		t.Skipf("the machine is too busy: zkr did not run for %v s more", z.late)
	}
	assert.Equal(t, 143, status)
	assert.Equal(t, []string{"exited", "released"}, seen)
}

func TestLeftovers(t *testing.T) {
	leave := "sleep 300 & exit 3"
	t.Run("kill", func(t *testing.T) {
		z := start(t, zktest.Run(t), "a", "lock", "/p", "--", "sh", "-c", leave)
		assert.Equal(t, 3, z.status(t))
		assert.Equal(t, []string{"acquired", "started", "term", "exited", "released"}, z.rest(t))
		assert.Contains(t, z.err.String(), "left processes behind")
	})
	t.Run("kill the deaf", func(t *testing.T) {
		z := start(t, zktest.Run(t), "a", "lock", "--grace=100ms", "/p", "--", "sh", "-c", "trap '' TERM; sleep 300 & exit 3")
		assert.Equal(t, 3, z.status(t))
		assert.Equal(t, []string{"acquired", "started", "term", "kill", "exited", "released"}, z.rest(t))
	})
	t.Run("kill the deaf after a revoke", func(t *testing.T) {
		srv := zktest.Run(t)
		z := start(t, srv, "a", "lock", "--on-revoke=term", "--grace=100ms", "/p", "--", "sh", "-c",
			"trap 'exit 3' TERM; (trap '' TERM; echo ready; exec sleep 300) & wait")
		z.until(t, "started")
		eventually(t, "it is deaf", func() bool { return strings.Contains(z.out.String(), "ready") })
		ends(t, 0, srv.Addr(), "revoke", "/p")
		assert.Equal(t, 3, z.status(t))
		assert.Equal(t, []string{"term", "kill", "exited", "released"}, z.rest(t))
	})
	t.Run("wait", func(t *testing.T) {
		z := start(t, zktest.Run(t), "a", "lock", "--leftovers=wait", "/p", "--", "sh", "-c",
			"(sleep 0.3; echo last) & exit 3")
		assert.Equal(t, 3, z.status(t))
		assert.Equal(t, "last\n", z.out.String())
	})
	t.Run("wait, until a signal", func(t *testing.T) {
		z := start(t, zktest.Run(t), "a", "lock", "--leftovers=wait", "/p", "--", "sh", "-c",
			`(trap "echo asked; exit" TERM; while kill -0 $$; do :; done 2>/dev/null; echo ready; while :; do sleep 0.05; done) &
			exit 3`)
		eventually(t, "the program has ended", func() bool { return strings.Contains(z.out.String(), "ready") })
		require.NoError(t, z.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 3, z.status(t))
		assert.Equal(t, "ready\nasked\n", z.out.String())
	})
	t.Run("wait, until --max-run", func(t *testing.T) {
		z := start(t, zktest.Run(t), "a", "lock", "--leftovers=wait", "--max-run=1s", "/p", "--", "sh", "-c", leave)
		assert.Equal(t, exit.MaxRun, z.status(t))
		assert.Equal(t, []string{"acquired", "started", "term", "exited", "released"}, z.rest(t))
	})
	t.Run("ignore", func(t *testing.T) {
		z := start(t, zktest.Run(t), "a", "lock", "--leftovers=ignore", "/p", "--", "sh", "-c",
			"sleep 1 >/dev/null 2>&1 3>&- & exit 3")
		assert.Equal(t, 3, z.status(t))
		assert.Equal(t, []string{"acquired", "started", "exited", "released"}, z.rest(t))
	})
	t.Run("ignore the deaf after a revoke", func(t *testing.T) {
		srv, dir := zktest.Run(t), t.TempDir()
		z := start(t, srv, "a", "lock", "--leftovers=ignore", "--on-revoke=term", "/p", "--", "sh", "-c",
			"trap 'exit 3' TERM; "+
				"(trap '' TERM; echo ready; exec >/dev/null 2>&1 3>&-; while test -e "+dir+"; do sleep 0.02; done) & wait")
		z.until(t, "started")
		eventually(t, "it is deaf", func() bool { return strings.Contains(z.out.String(), "ready") })
		ends(t, 0, srv.Addr(), "revoke", "/p")
		assert.Equal(t, 3, z.status(t))
		assert.Equal(t, []string{"term", "exited", "released"}, z.rest(t))
	})
}

func TestMinHold_KeepsTheLockAfterTheProgram(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	began := time.Now()
	z := start(t, srv, "a", "lock", "--min-hold=0.5", "/p", "--", "true")
	assert.Equal(t, 0, z.status(t))
	assert.GreaterOrEqual(t, time.Since(began), 500*time.Millisecond)

	z = start(t, srv, "a", "lock", "--min-hold=300", "/p", "--", "true")
	z.until(t, "exited")
	assert.NotEmpty(t, srv.Ephemerals(srv.SessionOf("a")))
}

// A signal ends the minimum hold. It used to be forgotten then, and zkr stood for the election again.
func TestMinHold_Signal_EndsAnElection(t *testing.T) {
	t.Parallel()
	z := start(t, zktest.Run(t), "a", "elect", "--min-hold=300", "--restart=always", "/e", "--", "true")
	z.until(t, "exited")
	assert.Equal(t, 0, z.after(t, syscall.SIGTERM), z.err.String())
	assert.Equal(t, []string{"released"}, z.rest(t))
}

// While the servers are silent, zkr waits until a signal arrives for the answer to its release. It used to ignore
// signals until the deadline of the lock.
func TestRelease_Signal_EndsTheWait(t *testing.T) {
	t.Parallel()
	for verb, path := range map[string]string{"lock": "/p", "elect": "/e"} {
		srv := zktest.Run(t)
		file := filepath.Join(t.TempDir(), "end")
		z := start(t, srv, "a", verb, path, "--", "sh", "-c",
			"while ! test -e "+file+"; do sleep 0.02; done; exit 3")
		z.until(t, "started")
		srv.Stall(zktest.Label("a"), zktest.FromServer)
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		z.until(t, "exited")
		eventually(t, "zkr waits for the answer", func() bool { return len(srv.Children(path)) == 0 })
		assert.Equal(t, 3, z.after(t, syscall.SIGTERM), z.err.String())
		assert.Contains(t, z.until(t, "unknown")["reason"], "stopped by signal terminated")
	}
}

func TestStop_WaitsForTheProgramAndKillsItIfAsked(t *testing.T) {
	deaf := []string{"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"}
	z := start(t, zktest.Run(t), "a", append([]string{"lock", "--stop-timeout=0.2", "/p", "--"}, deaf...)...)
	eventually(t, "the program ignores the signal", func() bool { return strings.Contains(z.out.String(), "ready") })
	assert.Equal(t, 137, z.after(t, syscall.SIGTERM))

	z = start(t, zktest.Run(t), "a", "lock", "/p", "--", "sh", "-c",
		"trap 'echo first >&2' INT; echo ready; while :; do sleep 0.05; done")
	z.until(t, "started")
	eventually(t, "the program handles the signal", func() bool { return strings.Contains(z.out.String(), "ready") })
	require.NoError(t, z.Process.Signal(syscall.SIGINT))
	eventually(t, "the program was told", func() bool { return strings.Contains(z.err.String(), "first") })
	eventually(t, "a later interrupt kills", func() bool {
		_ = z.Process.Signal(syscall.SIGINT) // it may have ended
		return strings.Contains(z.err.String(), "second interrupt")
	})
	assert.Equal(t, 137, z.status(t))
	seen := z.rest(t)
	require.Len(t, seen, 3)
	assert.Equal(t, []string{"kill", "exited"}, seen[:2])
	assert.Contains(t, []string{"released", "unknown"}, seen[2], "a late interrupt ends the wait for the release")
}

// TestMaxRun_OfARevokedProgram: --max-run bounds a program that ignores the signal of a revoke, too.
func TestMaxRun_OfARevokedProgram(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	z := start(t, srv, "a", "lock", "--on-revoke=term", "--max-run=10s", "--grace=100ms", "/p", "--", "sh", "-c",
		"trap '' TERM; echo ready; while :; do sleep 0.05; done")
	z.until(t, "started")
	eventually(t, "it is deaf", func() bool { return strings.Contains(z.out.String(), "ready") })
	ends(t, 0, srv.Addr(), "revoke", "/p")
	assert.Equal(t, exit.MaxRun, z.status(t))
	assert.Equal(t, []string{"term", "kill", "exited", "released"}, z.rest(t))
}

// TestHangup_ReloadsTheProgram: without a terminal, SIGHUP does not ask zkr to stop, even with --stop-timeout.
func TestHangup_ReloadsTheProgram(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	z := start(t, srv, "a", "elect", "--stop-timeout=0.1", "/e", "--", "sh", "-c",
		`trap 'echo reloaded' HUP; trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done`)
	z.until(t, "started")
	eventually(t, "the program handles the signal", func() bool { return strings.Contains(z.out.String(), "ready") })
	require.NoError(t, z.Process.Signal(syscall.SIGHUP))
	eventually(t, "it has reloaded", func() bool { return strings.Contains(z.out.String(), "reloaded") })
	<-time.After(300 * time.Millisecond)
	srv.Expire(srv.SessionOf("a"))
	assert.Equal(t, "lost", z.until(t, "kill")["reason"])
	z.until(t, "again")
	z.until(t, "started")
	eventually(t, "it leads again", func() bool { return strings.Count(z.out.String(), "ready") == 2 })
	assert.Contains(t, []int{0, 137}, z.after(t, syscall.SIGTERM), "on a busy machine it does not end in time")
}

func TestForward_PassesSignalsOn(t *testing.T) {
	z := start(t, zktest.Run(t), "a", "lock", "/p", "--", "sh", "-c",
		"trap 'exit 9' USR1; echo ready >&2; while :; do sleep 0.02; done")
	eventually(t, "the program runs", func() bool { return strings.Contains(z.err.String(), "ready") })
	assert.Equal(t, 9, z.after(t, syscall.SIGUSR1))
}

func TestEnvironment_OfANestedZkrIsItsOwn(t *testing.T) {
	srv := zktest.Run(t)
	show := `echo "$ZKR_PATH $ZKR_KIND $ZKR_DEPTH $ZKR_TOKEN"; "$ZKR" held && "$ZKR" check && env | grep -c ^ZKR_TOKEN=`
	out, _ := ends(t, 0, srv.Addr(), "lock", "/outer", "--shell", `"$ZKR" rlock /inner -- sh -c '`+show+
		`'; echo "$ZKR_PATH $ZKR_TOKEN"`)
	lines := strings.Split(out, "\n")
	require.Len(t, lines, 4, out)
	inner, outer := strings.Fields(lines[0]), strings.Fields(lines[2])
	assert.Equal(t, []string{"/inner", "read", "2"}, inner[:3])
	assert.Equal(t, "1", lines[1], "the variables stand once")
	assert.Equal(t, "/outer", outer[0])
	assert.NotEqual(t, outer[1], inner[3])
}

func TestEnvironment_OfSeveralPathsHasALineForEach(t *testing.T) {
	out, _ := ends(t, 0, zktest.Run(t).Addr(), "lock", "--path=/b", "--path=/a", "--shell",
		`echo "$ZKR_PATH"; echo "$ZKR_TOKEN" | wc -l; "$ZKR" check`)
	assert.Equal(t, "/b\n/a\n2\n", out)
}

func TestElect_EachTermHasANewToken(t *testing.T) {
	srv := zktest.Run(t)
	z := start(t, srv, "a", "elect", "/e", "--", "sleep", "300")
	first := z.until(t, "acquired")
	z.until(t, "started")
	srv.Expire(srv.SessionOf("a"))
	z.until(t, "again")
	second := z.until(t, "acquired")
	assert.NotEqual(t, first["token"], second["token"])
	z.until(t, "started")
	assert.Equal(t, 143, z.after(t, syscall.SIGTERM))
}

// TestElect_NoSessionForTheNextTerm: --wait bounds the wait for each term, even if there is no session to wait in.
func TestElect_NoSessionForTheNextTerm(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	file := filepath.Join(t.TempDir(), "end")
	z := start(t, srv, "a", "elect", "--wait=20s", "--on-loss=ignore", "--session-timeout=4s", "/e", "--shell",
		"until test -e "+file+"; do sleep 0.02; done")
	z.until(t, "started")
	srv.Refuse(zktest.Label("a"))
	srv.Cut(zktest.Label("a"))
	eventually(t, "the session is lost", func() bool { return logged(z.zkr, `msg="zookeeper: session lost"`) != "" })
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Equal(t, exit.Unreachable, z.status(t), z.err.String())
}

// TestElect_CredentialsRefused: a standby keeps trying while the servers refuse its credentials, and leads once they
// accept them again.
func TestElect_CredentialsRefused(t *testing.T) {
	srv := zktest.Run(t)
	leader := leading(t, srv, "/e", "boss")
	auth := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(auth, []byte("digest:alice:secret\n"), 0o600))
	z := start(t, srv, "a", "elect", "--auth-file", auth, "/e", "--", "sleep", "300")
	eventually(t, "it is queued", func() bool { return len(srv.Children("/e")) == 2 })
	refuse := srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpAuth, Times: -1},
		zktest.Fail(zktest.CodeAuthFailed))
	srv.Cut(zktest.Label("a"))
	eventually(t, "it keeps trying", func() bool { return refuse.Hits() >= 3 })
	refuse.Remove()
	require.NoError(t, leader.Release(t.Context()))
	z.until(t, "acquired")
	z.until(t, "started")
	assert.Equal(t, 143, z.after(t, syscall.SIGTERM))
}

func TestElect_RestartsAProgramThatFails(t *testing.T) {
	t.Parallel()
	count := filepath.Join(t.TempDir(), "count")
	z := start(t, zktest.Run(t), "a", "elect", "--restart=on-failure", "/e", "--", "sh", "-c",
		"echo >> "+count+`; test "$(wc -l < `+count+`)" = 2`)
	assert.Equal(t, 0, z.status(t))
	assert.Equal(t, []string{
		"acquired", "started", "exited", "released", "again", "acquired", "started", "exited",
		"released",
	}, z.rest(t))
}

// TestSignals_OfAStoppedProgram: a stopped program used to receive a forwarded SIGTERM only once somebody resumed it.
func TestSignals_OfAStoppedProgram(t *testing.T) {
	z := start(t, zktest.Run(t), "a", "elect", "/e", "--", "sleep", "300")
	pid, _ := z.until(t, "started")["pid"].(float64)
	const warning = "the program is stopped and still leads: resume it with SIGCONT"
	require.NoError(t, syscall.Kill(int(pid), syscall.SIGSTOP))
	eventually(t, "zkr has noticed", func() bool { return strings.Contains(z.err.String(), warning) })
	require.NoError(t, syscall.Kill(int(pid), syscall.SIGCONT))
	eventually(t, "it runs again", func() bool { return !stopped(int(pid)) })
	require.NoError(t, syscall.Kill(int(pid), syscall.SIGSTOP))
	eventually(t, "it is stopped again", func() bool { return stopped(int(pid)) })
	assert.Equal(t, 143, z.after(t, syscall.SIGTERM))
	assert.Equal(t, 1, strings.Count(z.err.String(), warning), "the guard reports the first stop")
}

// TestSignals_InterruptOfAProcessAndItsGroup: timeout -s INT signals zkr and then zkr's process group, which counts as
// one signal.
func TestSignals_InterruptOfAProcessAndItsGroup(t *testing.T) {
	const killed = 137
	status := killed
	for tries := 0; status == killed && tries < 5; tries++ { // a busy machine may stop zkr between two of the signals
		z := start(t, zktest.Run(t), "a", "lock", "/p", "--", "sh", "-c",
			`trap 'sleep 0.3; exit 9' INT; echo ready; while :; do sleep 0.05; done`)
		eventually(t, "the program is ready", func() bool { return strings.Contains(z.out.String(), "ready") })
		for range 5 { // the kernel may merge some of them
			require.NoError(t, z.Process.Signal(os.Interrupt))
		}
		status = z.status(t)
	}
	assert.Equal(t, 9, status)
}

// TestLeader_Asked: a request to release replaces the leader's name, and is not a name itself.
func TestLeader_Asked(t *testing.T) {
	srv := zktest.Run(t)
	term := leading(t, srv, "/e", "boss")
	ends(t, 0, srv.Addr(), "revoke", "/e")
	leader, _ := srv.Node(term.Path())
	want := fmt.Sprintf("session 0x%x", leader.Stat.EphemeralOwner)
	_, out, _ := run(t, srv.Addr(), "leader", "-o=value", "/e")
	assert.Equal(t, want+"\n", out)
	_, out, _ = run(t, srv.Addr(), "leader", "-o=json", "/e")
	assert.Contains(t, out, want)
}

// A zkr whose output nobody reads cannot stop by itself.
func TestSignal_ASecondOneEndsAVerbThatCannotPrint(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, errors.Join(read.Close(), write.Close())) })
	require.NoError(t, write.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
	_, err = write.Write(make([]byte, 1<<20)) // as much as the pipe takes
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	z := command(t, srv.Addr(), "leader", "--follow", "/e")
	z.Stdout = write
	require.NoError(t, z.Start())
	eventually(t, "it follows", func() bool { return len(srv.Sessions()) > 0 })
	eventually(t, "it ends", func() bool { return z.Process.Signal(syscall.SIGTERM) != nil || gone(z.Process.Pid) })
	assert.Contains(t, []int{-int(syscall.SIGTERM), 143}, z.status(t), "143 if it could not print yet")
}

func TestLeader_FollowsChanges(t *testing.T) {
	srv := zktest.Run(t)
	hooks := filepath.Join(t.TempDir(), "hooks")
	z := command(t, address(t, srv, "z"), "leader", "-o", "value",
		"--exec", `echo "$ZKR_LEADER ${ZKR_TOKEN%%[1-9]*}" >> `+hooks, "/e")
	z.Stdout = nil
	out, err := z.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, z.Start())
	said := bufio.NewScanner(out)
	next := func() string {
		require.True(t, said.Scan())
		return said.Text()
	}
	assert.Equal(t, "none", next())
	term := leading(t, srv, "/e", "boss")
	assert.Equal(t, "boss", next())
	srv.Refuse(zktest.Label("z"))
	srv.Cut(zktest.Label("z"))
	assert.Equal(t, "unknown", next(), "an outdated view names no leader")
	srv.Accept(zktest.Label("z"))
	assert.Equal(t, "boss", next())
	require.NoError(t, term.Release(t.Context()))
	assert.Equal(t, "none", next())
	assert.Equal(t, 143, z.after(t, syscall.SIGTERM))
	told, err := os.ReadFile(hooks)
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(told), "none 0\nboss \nunknown 0\nboss \n"), string(told))
}
