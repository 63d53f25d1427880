package lease_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// A server grants a minute, and 2 s after a restart. It resumes the session, and the answer never arrives. The hold must
// end before the server ends the session, 2 s later.
func TestLease_ResumedWithAShorterTimeoutAndNoAnswer_EndsBeforeTheSession(t *testing.T) {
	t.Parallel()
	const before, after = time.Minute, 2 * time.Second
	server := zkserver.Start(t, zkserver.WithTickTime(tick), zkserver.WithSessionTimeouts(0, before))
	network := proxy.Start(t, server.Addr())
	hold := lock(t, holder(t, network, before, conn.WithLeastTimeout(after)))
	restart(t, server, network, zkserver.WithSessionTimeouts(0, after))
	witness, err := connect(t, server, net.DialTimeout)
	must(t, err)
	if err := hold.Err(); err != nil {
		t.Fatalf("before the server was back: %v", err)
	}
	answer := network.Trap(proxy.Match{Ops: []int32{proxy.Connect}}, proxy.HoldReply)
	must(t, network.Accept())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, answer.Wait(ctx))
	resumed := time.Now()
	network.Refuse()
	network.Cut()
	for there := true; there; time.Sleep(5 * time.Millisecond) {
		must(t, ctx.Err())
		if exists, _, err := witness.Exists(hold.Path()); err == nil { // otherwise a busy machine has ended its session
			there = exists
		}
	}
	gone, lost := time.Now(), hold.Err()
	t.Logf("held until %v after the resumption, node gone after %v", hold.ValidUntil().Sub(resumed), gone.Sub(resumed))
	if gone.Sub(resumed) > before/2 {
		t.Error("the server counts with the timeout of before: the test says nothing")
	}
	if lost == nil {
		t.Errorf("the node is gone, and the hold goes on until %v later", hold.ValidUntil().Sub(gone))
	}
}

// A server grants 10 s, and no less than 60 s after a restart. The session must be proven again, or end. Either way the
// client gets the next lock, and is not kept waiting by its own past.
func TestLease_ResumedWithAMuchLongerTimeout_IsProvenOrEnds(t *testing.T) {
	t.Parallel()
	const before, after = 10 * time.Second, time.Minute // a server takes seconds to restart
	for name, opts := range map[string][]conn.Option{
		"tick unknown": nil,
		"tick known":   {conn.WithTickTime(tick)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zkserver.Start(t, zkserver.WithTickTime(tick), zkserver.WithSessionTimeouts(0, before))
			network := proxy.Start(t, server.Addr())
			c := holder(t, network, before, opts...)
			session, hold := c.Status().Session, lock(t, c)
			restart(t, server, network, zkserver.WithSessionTimeouts(after, after))
			must(t, network.Accept())
			for state := range c.States(t.Context()) {
				if state == zkrecipes.Connected && c.Status().Timeout == after {
					break
				}
			}
			began := time.Now()
			if hold.Err() == nil {
				must(t, hold.Release(t.Context()))
			}
			lock(t, c)
			t.Logf("the same session: %v; next lock after %v", c.Status().Session == session, time.Since(began))
		})
	}
}

func holder(t *testing.T, network *proxy.Proxy, timeout time.Duration, opts ...conn.Option) *conn.Client {
	t.Helper()
	c, err := conn.Dial(t.Context(), network.Addr(), append(opts, conn.WithSessionTimeout(timeout),
		conn.WithBackOff(func() conn.BackOff { return backoff.NewConstantBackOff(tick / 50) }))...)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	if granted := c.Status().Timeout; granted != timeout {
		t.Fatalf("granted %v, want %v", granted, timeout)
	}
	return c
}

// lock acquires the lock, which nobody else holds.
func lock(t *testing.T, c *conn.Client) *zkrecipes.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	m, err := mutex.New(c, "/lock")
	must(t, err)
	hold, err := m.Lock(ctx)
	must(t, err)
	return hold
}

// restart restarts the server with another configuration, while the client cannot reach anything.
func restart(t *testing.T, server *zkserver.Server, network *proxy.Proxy, opts ...zkserver.Option) {
	t.Helper()
	network.Refuse()
	network.Cut()
	must(t, server.Configure(opts...))
	must(t, server.Restart())
}
