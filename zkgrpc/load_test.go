package zkgrpc_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/zkgrpc"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const callers = 8

// cluster is a service on real connections. Each server has its own client, and the callers share one channel.
type cluster struct {
	t       *testing.T
	srv     *zktest.Server
	channel *grpc.ClientConn
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, srv: zktest.Run(t)}
	b, err := zkgrpc.NewResolver(open(t, bubble.Dial(t, c.srv, "callers")),
		zkgrpc.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	c.channel, err = grpc.NewClient("zk:///orders", grpc.WithResolvers(b), grpc.WithDefaultServiceConfig(roundRobin),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.channel.Close() }) // it is closed once
	return c
}

// start starts a server on a free port.
func (c *cluster) start(name string) *serving {
	c.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(c.t, err)
	i := discovery.Instance{Service: "orders", ID: name, Address: "127.0.0.1"}
	return serve(c.t, open(c.t, bubble.Dial(c.t, c.srv, name)), i, l, newServer(name, noWork),
		zkgrpc.WithSettle(100*time.Millisecond), zkgrpc.WithRemoval(time.Minute))
}

// await calls until the server has answered.
func (c *cluster) await(name string) {
	c.t.Helper()
	for answered := ""; answered != name; {
		var err error
		answered, err = call(c.t.Context(), c.channel)
		require.NoError(c.t, err)
	}
}

// load is a number of callers, each of which makes one call after the other.
type load struct {
	running sync.WaitGroup
	stop    context.CancelFunc

	mu       sync.Mutex
	calls    int
	failures []error
	awaited  int           // number of calls
	reached  chan struct{} // closed at that number
}

func (c *cluster) load() *load {
	ctx, stop := context.WithCancel(c.t.Context())
	l := &load{stop: stop}
	for range callers {
		l.running.Go(func() {
			for ctx.Err() == nil {
				_, err := call(c.t.Context(), c.channel)
				l.note(err)
			}
		})
	}
	c.t.Cleanup(func() { l.end() })
	return l
}

func (l *load) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if err != nil {
		l.failures = append(l.failures, err)
	}
	if l.calls == l.awaited {
		close(l.reached)
	}
}

// more waits for another 2,500 calls.
func (l *load) more() {
	l.mu.Lock()
	l.awaited, l.reached = l.calls+2500, make(chan struct{})
	reached := l.reached
	l.mu.Unlock()
	<-reached
}

// end stops the calls, and returns their number and the errors.
func (l *load) end() (calls int, failures []error) {
	l.stop()
	l.running.Wait()
	return l.calls, l.failures
}

// Three servers are drained in turn, each is replaced before the next, and no call fails.
func TestLoad_DrainsFailNoCall(t *testing.T) {
	c := newCluster(t)
	var old []*serving
	for _, name := range []string{"a1", "b1", "c1"} {
		old = append(old, c.start(name))
		c.await(name)
	}
	l := c.load()
	for n, s := range old {
		l.more()
		s.drain()
		require.NoError(t, <-s.result)
		next := fmt.Sprintf("%c2", 'a'+n)
		c.start(next)
		c.await(next)
	}
	l.more()
	calls, failures := l.end()
	require.Empty(t, failures)
	require.GreaterOrEqual(t, calls, 10_000)
	t.Logf("%d calls by %d callers while each of three servers was drained and replaced: none failed", calls, callers)
}

// A server is killed: its connections break, and ZooKeeper is not notified. A call can fail only if it was on one of
// them, so each caller has at most one failure. The callers continue with the others, long before the session
// expires.
func TestLoad_KillFailsCallsUnderWayAlone(t *testing.T) {
	c := newCluster(t)
	victim := c.start("a")
	c.await("a")
	for _, name := range []string{"b", "c"} {
		c.start(name)
		c.await(name)
	}
	l := c.load()
	l.more()
	c.srv.Refuse(zktest.Label("a"))
	c.srv.Cut(zktest.Label("a"))
	victim.Stop()
	l.more()
	calls, failures := l.end()
	c.srv.Accept(zktest.Label("a")) // so that its registration can be removed
	require.LessOrEqual(t, len(failures), callers)
	t.Logf("%d calls by %d callers: %d failed when one of three servers was killed", calls, callers, len(failures))
}
