package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/barrier"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// blocking returns calls that block until their context ends, while no server answers.
func blocking(t *testing.T, srv *zktest.Server, c *conn.Client) map[string]func(context.Context) error {
	must := func(err error) { require.NoError(t, err) }
	m, err := mutex.New(c, "/mutex")
	must(err)
	held, err := mutex.New(c, "/held")
	must(err)
	h, err := held.Lock(t.Context())
	must(err)
	rw, err := rwlock.New(c, "/rwlock")
	must(err)
	sem, err := semaphore.New(c, "/semaphore", 1)
	must(err)
	e, err := election.New(c, "/election", election.WithStandBack())
	must(err)
	d, err := barrier.NewDouble(c, "/double", 2)
	must(err)
	services, err := discovery.New(c, "/services")
	must(err)
	r, err := services.Register(t.Context(), discovery.Instance{Service: "s", ID: "i", Address: "a", Port: 1})
	must(err)
	shards, err := shard.New(c, "/shards")
	must(err)
	granted := func(acquire func(context.Context) (*zkrecipes.Hold, error)) func(context.Context) error {
		return func(ctx context.Context) error { _, err := acquire(ctx); return err }
	}
	fn := func(context.Context, *zkrecipes.Hold) error { return nil }
	return map[string]func(context.Context) error{
		"lock": granted(m.Lock), "try": granted(m.TryLock), "read lock": granted(rw.RLock),
		"do":       func(ctx context.Context) error { return m.Do(ctx, fn) },
		"run":      func(ctx context.Context) error { return m.Run(ctx, fn) },
		"acquire":  func(ctx context.Context) error { _, err := sem.Acquire(ctx, 1); return err },
		"campaign": func(ctx context.Context) error { _, err := e.Campaign(ctx); return err },
		"lead": func(ctx context.Context) error {
			return e.Run(ctx, func(context.Context, *election.Term) error { return nil })
		},
		"enter":  func(ctx context.Context) error { _, err := d.Enter(ctx); return err },
		"update": func(ctx context.Context) error { return r.Update(ctx, r.Instance()) },
		"shards": func(ctx context.Context) error {
			return shards.Run(ctx, shard.List("a"), func(context.Context, *shard.Shard) error { return nil })
		},
		"release": h.Release,
		"dial": func(ctx context.Context) error {
			_, err := conn.Dial(ctx, srv.Addr(), conn.WithDialer(srv.DialAs("a")), bubble.Silent)
			return err
		},
		"queue":      func(ctx context.Context) error { _, err := m.Queue(ctx); return err },
		"leader":     func(ctx context.Context) error { _, err := e.Leader(ctx); return err },
		"get":        func(ctx context.Context) error { _, _, err := c.Get(ctx, "/a"); return err },
		"create all": func(ctx context.Context) error { return c.CreateAll(ctx, "/a/b", nil) },
		"delete all": func(ctx context.Context) error { return c.DeleteAll(ctx, "/a") },
	}
}

// The cause of a context may be what another call has returned, as in an errgroup. The error of a call that it ends
// prints it and matches that very error, but does not match what the other call reports.
func TestCause_ResultOfAnotherCall_IsOnlyPrinted(t *testing.T) {
	lost := &zkrecipes.LostError{Reason: zkrecipes.LossDeadline, Path: "/other"}
	for name, c := range map[string]struct {
		cause, not error
	}{
		"bare":         {zk.ErrNoNode, zk.ErrNoNode},
		"bare, fenced": {zkrecipes.ErrFenced, zkrecipes.ErrFenced},
		"wrapped": {
			fmt.Errorf("another: %w", &zkrecipes.OpError{Op: "get", Path: "/b", Err: zk.ErrNoNode}), zk.ErrNoNode,
		},
		"joined": {errors.Join(&zkrecipes.OpError{Op: "get", Path: "/b", Err: zk.ErrNoNode}), zk.ErrNoNode},
		"fenced": {fmt.Errorf("%w: %w", zkrecipes.ErrFenced, lost), zkrecipes.ErrFenced}, // as by Hold.Txn
		"busy":   {&zkrecipes.BusyError{Path: "/other"}, zkrecipes.ErrLocked},
		"taken":  {fmt.Errorf("another: %w", &zkrecipes.TakenError{Path: "/other"}), zkrecipes.ErrTaken},
	} {
		for _, ended := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.Run(t, zktest.InMemory())
				calls := blocking(t, srv, bubble.Dial(t, srv, "a"))
				synctest.Wait() // otherwise the node of the registration may be about to be read
				srv.Stall(zktest.Label("a"), zktest.Both)
				for call, f := range calls {
					ctx, cancel := context.WithCancelCause(t.Context())
					if ended {
						cancel(c.cause)
					} else {
						time.AfterFunc(time.Millisecond, func() { cancel(c.cause) })
					}
					err := f(ctx)
					require.Error(t, err, call)
					assert.ErrorContains(t, err, c.cause.Error(), "%s, %s", call, name)
					assert.NotErrorIs(t, err, c.not, "%s, %s", call, name)
					if c.cause != c.not { //nolint:errorlint // the same error
						assert.ErrorIs(t, err, c.cause, "%s, %s", call, name)
					}
				}
			})
		}
	}
}

// What a dialer returns explains why a call did not finish. It is not what the call found out, nor the end of a context
// of the caller's.
func TestCause_ErrorOfTheDialer_IsOnlyPrinted(t *testing.T) {
	for _, failure := range []error{
		zk.ErrNoNode, &zkrecipes.OpError{Op: "get", Path: "/tunnel", Err: zk.ErrNoNode}, zkrecipes.ErrLocked,
		context.DeadlineExceeded, &net.OpError{Op: "dial", Net: "tcp", Err: context.Canceled},
		zkrecipes.ErrClosed, zkrecipes.ErrReleased,
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.Run(t, zktest.InMemory())
			var broken atomic.Bool
			c, err := conn.Dial(t.Context(), srv.Addr(), bubble.Silent, conn.WithDialer(
				func(ctx context.Context, network, address string) (net.Conn, error) {
					if broken.Load() {
						return nil, failure
					}
					return srv.DialAs("a")(ctx, network, address)
				}))
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			calls := blocking(t, srv, c)
			m, err := mutex.New(c, "/lost")
			require.NoError(t, err)
			h, err := m.Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait() // otherwise the node of the registration may be about to be read
			broken.Store(true)
			srv.CutAll()
			synctest.Wait()
			for call, f := range calls {
				if call == "dial" {
					continue // has a dialer of its own
				}
				enough := errors.New("enough")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(100*time.Millisecond, func() { cancel(enough) }) // all before h is lost
				err := f(ctx)
				require.ErrorIs(t, err, enough, call)
				if call == "get" {
					assert.ErrorContains(t, err, failure.Error())
				}
				assert.NotErrorIs(t, err, failure, call)
				assert.NotErrorIs(t, err, zk.ErrNoNode, call)
				assert.NotErrorIs(t, err, context.Canceled, call)
			}
			<-h.Done()
			require.ErrorIs(t, h.Err(), zkrecipes.ErrLost)
			assert.ErrorContains(t, h.Err(), failure.Error())
			assert.NotErrorIs(t, h.Err(), failure)
			assert.NotErrorIs(t, h.Err(), context.Canceled)
		})
	}
}

// The same is true of what the dialer's connection returns, until the next attempt has failed.
func TestCause_ErrorOfTheConnection_IsOnlyPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		var broken atomic.Bool
		c, err := conn.Dial(t.Context(), srv.Addr(), bubble.Silent, conn.WithDialer(
			func(ctx context.Context, network, address string) (net.Conn, error) {
				if broken.Load() {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				nc, err := srv.DialAs("a")(ctx, network, address)
				return tunnel{nc}, err
			}))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		broken.Store(true)
		srv.CutAll()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, _, err = c.Get(ctx, "/a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "the tunnel has gone")
		require.NotErrorIs(t, err, zk.ErrNoNode)
	})
}

// tunnel is a connection whose reads fail with the result of another call.
type tunnel struct{ net.Conn }

func (c tunnel) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		err = fmt.Errorf("the tunnel has gone: %w", zk.ErrNoNode)
	}
	return n, err
}

// A context may end because another client was closed. The acquisition that it ends used to report that its own was.
func TestCause_AnotherClientClosed_IsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		for call, acquire := range blocking(t, srv, bubble.Dial(t, srv, "a")) {
			if call != "lock" && call != "acquire" && call != "campaign" {
				continue
			}
			srv.Stall(zktest.Label("a"), zktest.Both)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Millisecond, func() { cancel(fmt.Errorf("another: %w", zkrecipes.ErrClosed)) })
			var waited *zkrecipes.WaitError
			require.ErrorAs(t, acquire(ctx), &waited, call)
		}
	})
}

// A call with a hold's context matches the hold's loss, even if a server reported it: the loss is not the server's
// answer to another call.
func TestCause_LossOfTheHold_IsMatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		c := bubble.Dial(t, srv, "a")
		m, err := mutex.New(c, "/mutex")
		require.NoError(t, err)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		srv.Intercept(zktest.Match{Op: zktest.OpExists}, zktest.Fail(zktest.CodeSessionExpired))
		_, _, err = c.Exists(t.Context(), "/a")
		require.NoError(t, err, "in the next session")
		require.ErrorIs(t, h.Err(), zk.ErrSessionExpired)
		_, _, err = c.Get(h.Context(), "/")
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		_, err = m.Lock(h.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLost)
	})
}
