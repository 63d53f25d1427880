package zkgrpc_test

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/zkgrpc"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The server is removed from ZooKeeper at once, keeps serving for the settle time, and then ends its calls.
func TestServe_DrainsInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		i := orders("a", 1)
		s := serve(t, open(t, w.server), i, w.listen(i), newServer("a", func(context.Context) error {
			time.Sleep(3 * time.Second)
			return nil
		}))
		c := w.channel(t, "passthrough:///"+i.HostPort(), w.builder(t, w.caller)) // this client does not notice the drain
		results := make(chan error, 2)
		begin := func() {
			go func() { _, err := call(t.Context(), c); results <- err }()
			synctest.Wait()
		}
		require.True(t, w.srv.Exists(root+"/orders/a"))
		begin()
		began := time.Now()
		s.drain()
		synctest.Wait()
		require.False(t, w.srv.Exists(root+"/orders/a"))
		time.Sleep(900 * time.Millisecond)
		begin()
		require.Empty(t, s.result)
		require.NoError(t, <-results)
		_, err := w.dial(t.Context(), i.HostPort())
		require.Error(t, err, "the server takes no connection after the settle time")
		require.NoError(t, <-results)
		require.NoError(t, <-s.result)
		require.Equal(t, 3900*time.Millisecond, time.Since(began))
		_, err = call(t.Context(), c)
		require.Equal(t, codes.Unavailable, status.Code(err))
	})
}

func TestServe_CutsOffCallsAfterTheGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		i := orders("a", 1)
		forever := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		s := serve(t, open(t, w.server), i, w.listen(i), newServer("a", forever), zkgrpc.WithSettle(0),
			zkgrpc.WithGrace(7*time.Second))
		c := w.channel(t, "zk:///orders", w.builder(t, w.caller))
		result := make(chan error, 1)
		go func() { _, err := call(t.Context(), c); result <- err }()
		synctest.Wait()
		began := time.Now()
		s.drain()
		require.ErrorContains(t, <-s.result, "calls were cut off: they had not finished after 7s")
		require.Equal(t, 7*time.Second, time.Since(began))
		require.Equal(t, codes.Unavailable, status.Code(<-result))
	})
}

// A handler that ignores its context does not block Serve, even if the server waits for handlers, or if GracefulStop,
// which always waits for them, holds the lock of the server. A goroutine that waits for a lock would stop virtual time,
// so this test runs in real time.
func TestServe_HandlerGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait, disconnect bool
		want             string
	}{
		"handlers are waited for":                      {true, false, "and a handler still runs"},
		"handlers are waited for, the client has gone": {true, true, "and a handler still runs"},
		"handlers are not waited for":                  {false, false, "calls were cut off"},
		"the client has gone":                          {false, true, "calls were cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := zktest.Run(t, zktest.InMemory())
			d := open(t, bubble.Dial(t, srv, "server"))
			zk, err := zkgrpc.NewResolver(d)
			require.NoError(t, err)
			var n network
			i := orders("a", 1)
			started, free := make(chan struct{}), make(chan struct{})
			defer close(free)
			work := func(context.Context) error { close(started); <-free; return nil }
			s := serve(t, d, i, n.listen(i), newServer("a", work, grpc.WaitForHandlers(c.wait)), zkgrpc.WithSettle(0),
				zkgrpc.WithGrace(time.Millisecond))
			channel := n.channel(t, "passthrough:///"+i.HostPort(), zk)
			result := make(chan error, 1)
			go func() { _, err := call(t.Context(), channel); result <- err }()
			<-started
			if c.disconnect {
				require.NoError(t, channel.Close())
				require.Error(t, <-result)
			}
			s.drain()
			require.ErrorContains(t, <-s.result, c.want)
			require.False(t, srv.Exists(root+"/orders/a"))
		})
	}
}

func TestServe_ZooKeeperIsAwayAtTheDrain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		i := orders("a", 1)
		s := serve(t, open(t, w.server), i, w.listen(i), newServer("a", noWork), zkgrpc.WithRemoval(2*time.Second))
		w.srv.Stall(zktest.Label("server"), zktest.Both)
		began := time.Now()
		s.drain()
		require.ErrorContains(t, <-s.result,
			"/services/orders/a may be listed until the session ends: its removal took longer than 2s")
		require.Equal(t, 3*time.Second, time.Since(began))
		w.srv.Heal(zktest.Label("server"))
		time.Sleep(time.Minute)
		require.False(t, w.srv.Exists(root+"/orders/a"), "the removal goes on")
	})
}

func TestServe_ZooKeeperIsAwayAtTheStart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		i := orders("a", 1)
		w.srv.Stall(zktest.Label("server"), zktest.Both)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		result := make(chan error, 1)
		d, l := open(t, w.server), w.listen(i)
		go func() { result <- zkgrpc.Serve(ctx, newServer("a", noWork), l, d, i) }()
		c := w.channel(t, "passthrough:///"+i.HostPort(), w.builder(t, w.caller))
		name, err := call(t.Context(), c)
		require.NoError(t, err, "the server serves meanwhile")
		require.Equal(t, "a", name)
		began := time.Now()
		require.NoError(t, <-result)
		require.Equal(t, time.Minute, time.Since(began), "it need not settle")
		w.srv.Heal(zktest.Label("server"))
		time.Sleep(time.Minute)
		require.False(t, w.srv.Exists(root+"/orders/a"))
	})
}

// A server that another caller stops gracefully is removed at once, because it accepts no connection. Its calls go on,
// for longer than the grace, until that caller or the context ends them.
func TestServe_IsStoppedGracefullyByAnotherCaller(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(s *serving, free func())
		want error
	}{
		"the calls end":         {func(_ *serving, free func()) { free() }, grpc.ErrServerStopped},
		"the context is done":   {func(s *serving, free func()) { s.drain(); free() }, nil},
		"the server is stopped": {func(s *serving, _ func()) { s.Stop() }, grpc.ErrServerStopped},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				i := orders("a", 1)
				called, free := context.WithCancel(t.Context())
				work := func(ctx context.Context) error {
					select {
					case <-called.Done():
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				s := serve(t, open(t, w.server), i, w.listen(i), newServer("a", work))
				channel := w.channel(t, "zk:///orders", w.builder(t, w.caller))
				result := make(chan error, 1)
				go func() { _, err := call(t.Context(), channel); result <- err }()
				synctest.Wait()
				go s.GracefulStop()
				synctest.Wait()
				_, err := w.dial(t.Context(), i.HostPort())
				require.Error(t, err, "it takes no connection")
				require.False(t, w.srv.Exists(root+"/orders/a"))
				time.Sleep(time.Minute)
				require.Empty(t, result, "the call goes on")
				require.Empty(t, s.result)
				c.end(s, free)
				require.ErrorIs(t, <-s.result, c.want)
				<-result //nolint:errcheck // the call has ended, whatever its error
			})
		})
	}
}

func TestServe_IDIsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		i := orders("a", 1)
		first := serve(t, open(t, w.server), i, w.listen(i), newServer("first", noWork))
		second := w.listen(i)
		err := zkgrpc.Serve(t.Context(), newServer("second", noWork), second, open(t, w.caller), i)
		require.ErrorIs(t, err, zkrecipes.ErrTaken)
		require.NotErrorIs(t, err, grpc.ErrServerStopped)
		_, err = second.Accept()
		require.Error(t, err, "the listener is closed")

		waiting := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d, l := open(t, w.caller), w.listen(i)
		go func() {
			waiting <- zkgrpc.Serve(ctx, newServer("third", noWork), l, d, i, zkgrpc.WithRegister(discovery.WithWait()))
		}()
		synctest.Wait()
		first.drain()
		require.NoError(t, <-first.result)
		c := w.channel(t, "zk:///orders", w.builder(t, w.caller))
		name, err := call(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, "third", name)
		cancel()
		require.NoError(t, <-waiting)
	})
}

func TestServe_ServerEndsByItself(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for name, end := range map[string]func(s *serving, l net.Listener){
			"the server is stopped":  func(s *serving, _ net.Listener) { s.Stop() },
			"the listener is closed": func(_ *serving, l net.Listener) { _ = l.Close() }, // never fails
		} {
			i := orders("a", 1)
			l := w.listen(i)
			s := serve(t, open(t, w.server), i, l, newServer("a", noWork))
			end(s, l)
			require.Error(t, <-s.result, name)
			require.False(t, w.srv.Exists(root+"/orders/a"), name)
		}
		s := newServer("a", noWork)
		s.Stop()
		i := orders("a", 1)
		require.ErrorIs(t, zkgrpc.Serve(t.Context(), s, w.listen(i), open(t, w.server), i), grpc.ErrServerStopped)
		synctest.Wait() // if the node was created, it is deleted in the background
		require.False(t, w.srv.Exists(root+"/orders/a"))
	})
}

// Only the server's client is cut off from ZooKeeper. Its callers leave it when its session has expired, and no call
// fails.
func TestServe_IsCutOffFromZooKeeper(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for port, name := range []string{"a", "b"} {
			i, client := orders(name, port+1), w.server
			if name == "b" {
				client = w.caller
			}
			serve(t, open(t, client), i, w.listen(i), newServer(name, noWork))
		}
		c := w.channel(t, "zk:///orders", w.builder(t, w.caller))
		names := callFor(t, c, time.Second)
		require.Equal(t, []string{"a", "b"}, names)
		w.srv.Stall(zktest.Label("server"), zktest.Both)
		require.Equal(t, []string{"a", "b"}, callFor(t, c, 5*time.Second))
		time.Sleep(15 * time.Second)
		require.Equal(t, []string{"b"}, callFor(t, c, time.Second))
		w.srv.Heal(zktest.Label("server"))
		time.Sleep(15 * time.Second)
		require.Equal(t, []string{"a", "b"}, callFor(t, c, time.Second))
	})
}

// callFor returns the names of the servers that answer, and requires that no call fails.
func callFor(t *testing.T, c *grpc.ClientConn, d time.Duration) (names []string) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		name, err := call(t.Context(), c)
		require.NoError(t, err)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// A channel with health checks does not call a registered instance that reports that it is not serving.
func TestResolver_HealthChecks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		healths := map[string]*health.Server{}
		for port, name := range []string{"a", "b"} {
			i, s := orders(name, port+1), newServer(name, noWork)
			healths[name] = health.NewServer()
			healthpb.RegisterHealthServer(s, healths[name])
			serve(t, open(t, w.server), i, w.listen(i), s)
		}
		c := w.channel(t, "zk:///orders", w.builder(t, w.caller), grpc.WithDefaultServiceConfig(
			`{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}`))
		require.Equal(t, []string{"a", "b"}, callFor(t, c, time.Second))
		healths["a"].SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
		synctest.Wait()
		require.Equal(t, []string{"b"}, callFor(t, c, time.Second))
		healths["a"].SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, callFor(t, c, time.Second))
	})
}

// A call on a channel without addresses fails with the reason.
func TestResolver_CallsSayWhatIsInTheWay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.channel(t, "zk:///orders", w.builder(t, w.caller))
		_, err := call(t.Context(), c)
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "service orders below /services has no instance that can be called")

		waiting := make(chan error, 1)
		go func() { _, err := call(t.Context(), c, grpc.WaitForReady(true)); waiting <- err }()
		synctest.Wait()
		require.Empty(t, waiting)
		i := orders("a", 1)
		serve(t, open(t, w.server), i, w.listen(i), newServer("a", noWork))
		require.NoError(t, <-waiting)

		w.srv.Stall(zktest.Everyone, zktest.Both)
		other := w.channel(t, "zk:///orders", w.builder(t, w.caller))
		_, err = call(t.Context(), other)
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "zkgrpc: follow service orders below /services: ")
		name, err := call(t.Context(), c)
		require.NoError(t, err, "a channel that has addresses keeps them")
		require.Equal(t, "a", name)
		w.srv.Heal(zktest.Everyone)
	})
}

// An idle channel has no resolver. The next call creates another.
func TestResolver_ChannelWasIdle(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		i := orders("a", 1)
		serve(t, open(t, w.server), i, w.listen(i), newServer("a", noWork))
		c := w.channel(t, "zk:///orders", w.builder(t, w.caller), grpc.WithIdleTimeout(time.Minute))
		require.Equal(t, []string{"a"}, callFor(t, c, time.Second))
		require.NotEmpty(t, w.srv.Watchers(root+"/orders"))
		time.Sleep(3 * time.Minute)
		require.Empty(t, w.srv.Watchers(root+"/orders"))
		require.Equal(t, []string{"a"}, callFor(t, c, time.Second))
	})
}

// A channel that becomes idle gives up its addresses, so in an outage its next call fails. One that never becomes idle
// keeps them.
func TestResolver_ChannelIsIdleInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		i := orders("a", 1)
		serve(t, open(t, w.server), i, w.listen(i), newServer("a", noWork))
		b := w.builder(t, w.caller)
		idle, always := w.channel(t, "zk:///orders", b), w.channel(t, "zk:///orders", b, grpc.WithIdleTimeout(0))
		for _, c := range []*grpc.ClientConn{idle, always} {
			require.Equal(t, []string{"a"}, callFor(t, c, time.Second))
		}
		w.srv.Refuse(zktest.Label("caller"))
		w.srv.Cut(zktest.Label("caller"))
		time.Sleep(time.Hour)
		began := time.Now()
		_, err := call(t.Context(), idle)
		require.ErrorContains(t, err, "zkgrpc: follow service orders below /services: ")
		require.Equal(t, 6*time.Second, time.Since(began))
		require.Equal(t, []string{"a"}, callFor(t, always, time.Second))
	})
}

func TestServe_BadInput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var none context.Context
		i, portless := orders("a", 1), orders("a", 0)
		d, s := open(t, w.server), newServer("a", noWork)
		for want, f := range map[string]func() error{
			"context is nil":   func() error { return zkgrpc.Serve(none, s, w.listen(i), d, i) },
			"server is nil":    func() error { return zkgrpc.Serve(t.Context(), nil, w.listen(i), d, i) },
			"listener is nil":  func() error { return zkgrpc.Serve(t.Context(), s, nil, d, i) },
			"discovery is nil": func() error { return zkgrpc.Serve(t.Context(), s, w.listen(i), nil, i) },
			"set Port":         func() error { return zkgrpc.Serve(t.Context(), s, w.listen(i), d, portless) },
			"function is nil": func() error {
				return zkgrpc.Serve(t.Context(), s, w.listen(i), d, i, zkgrpc.WithRegistered(nil))
			},
			"option 0 is nil": func() error { return zkgrpc.Serve(t.Context(), s, w.listen(i), d, i, nil) },
			"removal 0s: want": func() error {
				return zkgrpc.Serve(t.Context(), s, w.listen(i), d, i, zkgrpc.WithRemoval(0))
			},
			"settle -1ns: want 0": func() error {
				return zkgrpc.Serve(t.Context(), s, w.listen(i), d, i, zkgrpc.WithSettle(-1))
			},
			"grace 0s: want": func() error { return zkgrpc.Serve(t.Context(), s, w.listen(i), d, i, zkgrpc.WithGrace(0)) },
		} {
			require.ErrorContains(t, f(), want)
		}
		l := w.listen(i)
		require.Error(t, zkgrpc.Serve(t.Context(), s, l, d, portless))
		_, err := l.Accept()
		require.Error(t, err, "the listener is closed")
	})
}
