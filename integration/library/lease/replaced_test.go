// Package lease_test tests the proof of liveness of package conn against real servers: a leader that was replaced and
// does not know it yet, and servers that grant another timeout after a restart.
package lease_test

import (
	"errors"
	"io"
	"log"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/client"
)

const tick = 500 * time.Millisecond

// A client reaches only a leader that was frozen, at the moment when that leader resumes, and after that no server at
// all. Its deadline must not count from the answers of that leader, because the successor counts from an earlier time.
func TestLease_ResumedByALeaderThatWasReplaced_EndsBeforeTheSession(t *testing.T) {
	t.Parallel()
	e, old := ensemble(t)
	network := proxy.Start(t, old.Addr())
	c, err := conn.Dial(t.Context(), network.Addr(), conn.WithSessionTimeout(12*tick), conn.WithConnectTimeout(tick),
		conn.WithBackOff(func() conn.BackOff { return backoff.NewConstantBackOff(tick / 50) }))
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	_, err = c.Create(t.Context(), "/held", nil, zk.FlagEphemeral)
	must(t, err)
	s, err := (*client.Client)(c).Session(t.Context())
	must(t, err)
	defer s.Retain()()
	stop, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() { return nil })
	if !ok {
		t.Fatal("the session is not proven")
	}
	defer stop()
	start := time.Now()
	note := func(what string) {
		t.Logf("%.3f s: %s, valid until %.3f s", time.Since(start).Seconds(), what, s.ValidUntil().Sub(start).Seconds())
	}

	must(t, old.Pause())
	witness := await(t, e, old)
	note("replaced")
	time.Sleep(4 * tick) // the successor will be ahead by this much
	must(t, old.Resume())
	for state := range c.States(t.Context()) {
		if state == zkrecipes.Connected {
			break
		}
	}
	note("resumed by the old leader")
	network.Refuse()
	network.Cut()
	until := s.ValidUntil()
	for there := true; there; time.Sleep(5 * time.Millisecond) {
		if there, _, err = witness.Exists("/held"); err != nil {
			there, witness = true, await(t, e, nil) // the successor has been replaced as well, on a busy machine
		}
	}
	gone := time.Now()
	note("gone")
	if until.After(gone) {
		t.Errorf("valid until %v after the node was gone", until.Sub(gone))
	}
}

// The previous test depends on this: until such a leader finds out, it answers a sync and reads. The answer "no" of
// TryLock may therefore be old.
func TestSync_AnsweredByALeaderThatWasReplaced_IsOld(t *testing.T) {
	t.Parallel()
	e, old := ensemble(t)
	here, err := connect(t, old, once()) // a second connection might reach the follower that it becomes
	must(t, err)
	must(t, old.Pause())
	for written := false; !written; { // on a busy machine the new leader may lose its followers again
		_, err := await(t, e, old).Create("/new", nil, 0, zk.WorldACL(zk.PermAll))
		written = err == nil || errors.Is(err, zk.ErrNodeExists)
	}
	must(t, old.Resume())
	last, stale, served := time.Now(), 0, time.Duration(0)
	for {
		_, err := here.Sync("/")
		if err != nil {
			break // it has found out
		}
		exists, _, err := here.Exists("/new")
		if err != nil {
			break
		}
		if exists {
			t.Fatal("the old leader sees what it cannot have been told of")
		}
		now := time.Now()
		stale, served = stale+1, served+min(now.Sub(last), tick/10) // a busy machine may stop the leader or this process
		last = now
	}
	t.Logf("%d answers in %v, all old", stale, served)
	if served > 2*tick {
		t.Errorf("a leader that was replaced served for %v: the proof of liveness counts on a tick and a half", served)
	}
}

func ensemble(t *testing.T) (*zkserver.Ensemble, *zkserver.Server) {
	t.Helper()
	e := zkserver.StartEnsemble(t, 3, zkserver.WithTickTime(tick))
	leader, err := e.Leader()
	must(t, err)
	return e, leader
}

// await waits for a leader other than old, and connects to it.
func await(t *testing.T, e *zkserver.Ensemble, old *zkserver.Server) *zk.Conn {
	t.Helper()
	for {
		leader, err := e.Leader()
		must(t, err)
		if leader == old {
			continue
		}
		if c, err := connect(t, leader, net.DialTimeout); err == nil { // otherwise it has been replaced meanwhile
			return c
		}
	}
}

// once returns a dialer that connects only once.
func once() zk.Dialer {
	var dialed atomic.Bool
	return func(network, addr string, timeout time.Duration) (net.Conn, error) {
		if dialed.Swap(true) {
			return nil, errors.New("no second connection")
		}
		return net.DialTimeout(network, addr, timeout)
	}
}

func connect(t *testing.T, s *zkserver.Server, dial zk.Dialer) (*zk.Conn, error) {
	t.Helper()
	c, _, err := zk.Connect([]string{s.Addr()}, 18*tick, zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithDialer(dial))
	must(t, err)
	t.Cleanup(c.Close)
	_, err = c.Sync("/")
	return c, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
