package lease_test

import (
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// A follower asks the leader to resume a session with the follower's own maximum, 8 s, and then no longer hears from
// the leader. The leader counts with the 8 s. When the follower notices that it has lost its leader, it closes the
// client's connection gracefully. The hold must end before the next waiter is granted.
func TestLease_ResumedByAFollowerThatLosesItsLeader_EndsBeforeTheSuccessor(t *testing.T) {
	t.Parallel()
	if !zkserver.Isolates(t) {
		t.Skip("isolation takes root and iptables: apt-get install iptables")
	}
	const second, least, timeout, most = time.Second, 8 * time.Second, time.Minute, 2 * time.Minute
	e := zkserver.StartEnsemble(t, 3, zkserver.WithOwnUsers(), zkserver.WithTickTime(second), zkserver.WithSyncLimit(20),
		zkserver.WithSessionTimeouts(0, most))
	leader, err := e.Leader()
	must(t, err)
	short, long := followers(e, leader)
	must(t, short.Configure(zkserver.WithSessionTimeouts(0, least), zkserver.WithSyncLimit(5)))
	must(t, short.Restart())
	must(t, e.WaitReady())

	toLong, toShort := proxy.Start(t, long.Addr()), proxy.Start(t, short.Addr())
	toShort.Refuse()
	hold := lock(t, dial(t, toLong.Addr()+","+toShort.Addr(), conn.WithSessionTimeout(timeout),
		conn.WithLeastTimeout(least)))
	next, err := mutex.New(dial(t, leader.Addr(), conn.WithSessionTimeout(timeout)), "/lock")
	must(t, err)
	type grant struct {
		at, until time.Time
		lost, err error
	}
	granted := make(chan grant, 1)
	go func() {
		_, err := next.Lock(t.Context())
		granted <- grant{time.Now(), hold.ValidUntil(), hold.Err(), err}
	}()

	toLong.Refuse()
	cut := time.Now()
	toLong.Cut()
	time.Sleep(second) // the other follower reports the client's last contact to the leader, with a minute
	must(t, e.Mute(leader, short))
	must(t, toShort.Accept())
	for toShort.Conns() == 0 {
		time.Sleep(time.Millisecond)
	}
	toShort.Refuse() // the client tries only once
	g := <-granted
	must(t, g.err)
	t.Logf("after the cut: the hold was valid until %v, the next one was granted at %v", g.until.Sub(cut), g.at.Sub(cut))
	if g.lost == nil {
		t.Errorf("two holders for %v", g.until.Sub(g.at))
	}
	if g.at.Sub(cut) > timeout/2 {
		t.Error("the leader counts with the timeout of before: the test says nothing")
	}
}

func dial(t *testing.T, servers string, opts ...conn.Option) *conn.Client {
	t.Helper()
	c, err := conn.Dial(t.Context(), servers, append(opts,
		conn.WithBackOff(func() conn.BackOff { return backoff.NewConstantBackOff(tick / 50) }))...)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// followers returns the two servers of an ensemble of three that do not lead.
func followers(e *zkserver.Ensemble, leader *zkserver.Server) (one, other *zkserver.Server) {
	for _, s := range e.Servers {
		if s != leader {
			one, other = s, one
		}
	}
	return one, other
}
