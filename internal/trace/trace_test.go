package trace_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// key is the type of what the recorder adds to the contexts of acquisitions and holds.
type key string

// recorder is a tracer that records its calls. In each call it looks at what a mutex of the library guards.
type recorder struct {
	look func()
	peek func() // looks, except at what waits for a session

	mu       sync.Mutex
	order    []string
	acquired []zkrecipes.AcquireEnd
	held     []zkrecipes.HoldEnd
	states   []zkrecipes.StateChange
	connects []zkrecipes.Connect
	requests []zkrecipes.Request
	within   []any // the recorder's value in the context of each request
}

func (r *recorder) note(what string) {
	if r.look != nil {
		r.look()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order = append(r.order, what)
}

func (r *recorder) acquireStart(ctx context.Context, a zkrecipes.AcquireStart) context.Context {
	r.note("acquire " + a.Recipe)
	return context.WithValue(ctx, key("acquire"), a.Recipe)
}

func (r *recorder) acquireEnd(ctx context.Context, a zkrecipes.AcquireEnd) {
	r.note(fmt.Sprintf("%s %v", a.Outcome(), ctx.Value(key("acquire"))))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acquired = append(r.acquired, a)
}

func (r *recorder) holdStart(ctx context.Context, h zkrecipes.HoldStart) context.Context {
	r.note(fmt.Sprintf("hold %v", ctx.Value(key("acquire"))))
	return context.WithValue(ctx, key("hold"), h.Token)
}

func (r *recorder) holdEnd(ctx context.Context, h zkrecipes.HoldEnd) {
	h.ValidUntil()
	r.note(fmt.Sprintf("end %v %t", ctx.Value(key("acquire")), ctx.Value(key("hold")) == h.Token))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = append(r.held, h)
}

func (r *recorder) state(c zkrecipes.StateChange) {
	r.note(c.To.String())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states = append(r.states, c)
}

func (r *recorder) connect(c zkrecipes.Connect) {
	if r.peek != nil {
		r.peek()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connects = append(r.connects, c)
}

func (r *recorder) request(ctx context.Context, q zkrecipes.Request) {
	if r.look != nil {
		r.look()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, q)
	r.within = append(r.within, ctx.Value(key("acquire")))
}

func (r *recorder) tracer() *zkrecipes.Tracer {
	return &zkrecipes.Tracer{
		AcquireStart: r.acquireStart, AcquireEnd: r.acquireEnd, HoldStart: r.holdStart, HoldEnd: r.holdEnd, State: r.state,
		Connect: r.connect,
		Request: r.request,
	}
}

// seen returns what was recorded, once all goroutines are idle, and forgets the order.
func (r *recorder) seen() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	order := r.order
	r.order = nil
	return order
}

// dial connects a client with a recorder that has seen it come up.
func dial(t *testing.T, srv *zktest.Server, label string) (*conn.Client, *recorder) {
	t.Helper()
	r := &recorder{}
	c := bubble.Dial(t, srv, label, conn.WithTracer(r.tracer()))
	require.Equal(t, []string{"connected"}, r.seen())
	return c, r
}

func newMutex(t *testing.T, c *conn.Client, opts ...mutex.Option) *mutex.Mutex {
	t.Helper()
	m, err := mutex.New(c, "/lock", opts...)
	require.NoError(t, err)
	return m
}

func TestTracer_EveryRecipe_IsToldOfAcquisitionAndHold(t *testing.T) {
	recipes := map[string]func(*conn.Client) func(context.Context) (*zkrecipes.Hold, error){
		"mutex": func(c *conn.Client) func(context.Context) (*zkrecipes.Hold, error) {
			m, _ := mutex.New(c, "/app/x", mutex.WithTracerName("invoices"))
			return m.Lock
		},
		"rwlock-read": func(c *conn.Client) func(context.Context) (*zkrecipes.Hold, error) {
			l, _ := rwlock.New(c, "/app/x", rwlock.WithTracerName("invoices"))
			return l.RLock
		},
		"rwlock-write": func(c *conn.Client) func(context.Context) (*zkrecipes.Hold, error) {
			l, _ := rwlock.New(c, "/app/x", rwlock.WithTracerName("invoices"))
			return l.Lock
		},
		"semaphore": func(c *conn.Client) func(context.Context) (*zkrecipes.Hold, error) {
			s, _ := semaphore.New(c, "/app/x", 3, semaphore.WithTracerName("invoices"))
			return func(ctx context.Context) (*zkrecipes.Hold, error) { return s.Acquire(ctx, 2) }
		},
		"election": func(c *conn.Client) func(context.Context) (*zkrecipes.Hold, error) {
			e, _ := election.New(c, "/app/x", election.WithTracerName("invoices"))
			return func(ctx context.Context) (*zkrecipes.Hold, error) {
				term, err := e.Campaign(ctx)
				return term.Hold, err
			}
		},
	}
	for recipe, acquire := range recipes {
		t.Run(recipe, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, r := dial(t, zktest.Run(t, zktest.InMemory()), "a")
				h, err := acquire(c)(t.Context())
				require.NoError(t, err)
				require.Equal(t, recipe, h.Context().Value(key("acquire")))
				require.Equal(t, h.Token(), h.Context().Value(key("hold")))
				time.Sleep(3 * time.Second)
				require.NoError(t, h.Release(t.Context()))
				require.NoError(t, h.Release(t.Context()))
				require.Equal(t, []string{"acquire " + recipe, "hold " + recipe, "granted " + recipe, "end " + recipe + " true"},
					r.seen())
				require.Equal(t, []zkrecipes.AcquireEnd{{
					AcquireStart: zkrecipes.AcquireStart{Recipe: recipe, Name: "invoices", Path: "/app/x"},
					Position:     1, Token: h.Token(),
				}}, r.acquired)
				require.Len(t, r.held, 1)
				end := r.held[0]
				require.NotNil(t, end.ValidUntil)
				end.ValidUntil = nil
				require.Equal(t, zkrecipes.HoldEnd{
					HoldStart: zkrecipes.HoldStart{
						Recipe: recipe, Name: "invoices", Queue: "/app/x", Path: h.Path(),
						Token: h.Token(),
					},
					Held: 3 * time.Second,
				}, end)
			})
		})
	}
}

func TestTracer_Outcomes(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		holder, first := dial(t, srv, "holder")
		h, err := newMutex(t, holder).Lock(t.Context())
		require.NoError(t, err)
		first.seen()

		c, r := dial(t, srv, "waiter")
		m := newMutex(t, c)
		_, err = m.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = m.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Times: 1}, zktest.Fail(zktest.CodeNoAuth))
		_, err = m.Lock(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		waiting := bubble.Start(t.Context(), m.Lock)
		waiting.Waits(t)
		time.Sleep(5 * time.Second)
		require.NoError(t, h.Release(t.Context()))
		waiting.Granted(t, time.Second)
		other := bubble.Start(t.Context(), newMutex(t, c).Lock)
		other.Waits(t)
		require.NoError(t, c.Close())
		require.ErrorIs(t, other.Failed(t, time.Second), zkrecipes.ErrClosed)

		var got []string
		synctest.Wait()
		for _, a := range r.acquired {
			got = append(got, fmt.Sprintf("%s place %d after %v, try %t", a.Outcome(), a.Position, a.Waited, a.Try))
			require.Equal(t, a.Err == nil, a.Token != 0)
		}
		require.Equal(t, []string{
			"busy place 2 after 0s, try true",
			"canceled place 2 after 2s, try false",
			"failed place 0 after 0s, try false",
			"granted place 2 after 5s, try false",
			"closed place 2 after 0s, try false",
		}, got)
		require.Equal(t, zkrecipes.LossClosed, r.held[0].Lost.Reason)
	})
}

func TestTracer_NestedHolds_AreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := dial(t, zktest.Run(t, zktest.InMemory()), "a")
		m := newMutex(t, c, mutex.WithReentrance())
		outer, err := m.Lock(t.Context())
		require.NoError(t, err)
		inner, err := m.Lock(outer.Context())
		require.NoError(t, err)
		require.NoError(t, outer.Release(t.Context()))
		require.Equal(t, []string{"acquire mutex", "hold mutex", "granted mutex"}, r.seen())
		require.NoError(t, inner.Release(t.Context()))
		require.Equal(t, []string{"end mutex true"}, r.seen())
	})
}

func TestTracer_Downgrade_IsAnAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := dial(t, zktest.Run(t, zktest.InMemory()), "a")
		l, err := rwlock.New(c, "/lock")
		require.NoError(t, err)
		w, err := l.Lock(t.Context())
		require.NoError(t, err)
		rd, err := l.RLock(w.Context())
		require.NoError(t, err)
		require.NoError(t, w.Release(t.Context()))
		require.NoError(t, rd.Release(t.Context()))
		require.Equal(t, []string{
			"acquire rwlock-write", "hold rwlock-write", "granted rwlock-write",
			"acquire rwlock-read", "hold rwlock-read", "granted rwlock-read",
			"end rwlock-write true", "end rwlock-read true",
		}, r.seen())
	})
}

func TestTracer_States_NameServerSessionAndCause(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c, r := dial(t, srv, "a")
		session, err := c.Session(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		srv.Refuse(zktest.Everyone)
		srv.Cut(zktest.Everyone)
		time.Sleep(2 * time.Second)
		srv.Accept(zktest.Everyone)
		_, err = c.Children(t.Context(), "/")
		require.NoError(t, err)
		srv.Expire(session.ID())
		<-session.Done()
		_, err = c.Children(t.Context(), "/")
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Equal(t, []string{"suspended", "connected", "suspended", "lost", "connected", "closed"}, r.seen())
		for i, s := range r.states {
			require.Equal(t, srv.Addr(), s.Server)
			require.Equal(t, bubble.Timeout, s.Timeout)
			if i < 5 {
				require.Equal(t, session.ID(), s.Session)
			} else {
				require.NotEqual(t, session.ID(), s.Session)
			}
			if i > 0 {
				require.Equal(t, r.states[i-1].To, s.From)
				require.Equal(t, s.At.Sub(r.states[i-1].At), s.Lasted)
			}
			require.Equal(t, s.To == zkrecipes.Suspended || s.To == zkrecipes.Lost, s.Err != nil, "%s: %v", s.To, s.Err)
		}
		require.Equal(t, time.Second, r.states[1].Lasted)
		require.GreaterOrEqual(t, r.states[2].Lasted, 2*time.Second)
		require.ErrorIs(t, r.states[4].Err, zkrecipes.ErrLost)
	})
}

func TestTracer_Requests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithWriteLatency(10*time.Millisecond))
		_, err := srv.Create("/app", nil, zktest.Persistent)
		require.NoError(t, err)
		r := &recorder{}
		c := bubble.DialAt(t, srv, "a", "/app", conn.WithTracer(r.tracer()))
		ctx := t.Context()
		_, err = c.Create(ctx, "/x", nil, 0)
		require.NoError(t, err)
		_, err = c.Create(ctx, "/x", nil, 0)
		require.ErrorIs(t, err, zk.ErrNodeExists)
		_, err = c.Multi(ctx, zkrecipes.OpSet("/x", nil, -1), zkrecipes.OpDelete("/x", -1))
		require.NoError(t, err)
		_, err = c.Multi(ctx, zkrecipes.OpCreate("/y", nil, 0), zkrecipes.OpCheck("/x", 7))
		require.ErrorIs(t, err, zk.ErrNoNode)
		exists, _, err := c.Exists(ctx, "/x")
		require.NoError(t, err)
		require.False(t, exists)
		srv.Intercept(zktest.Match{Op: zktest.OpExists}, zktest.Fail(zktest.CodeInvalidACL))
		_, _, err = c.Exists(ctx, "/x")
		require.ErrorIs(t, err, zk.ErrInvalidACL)
		_, err = c.Children(ctx, "/x")
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.NoError(t, c.Sync(ctx, "/"))
		srv.Intercept(zktest.Match{Op: zktest.OpSetData, Times: 1}, zktest.DropReply())
		_, err = c.Set(ctx, "/x", nil, -1)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)

		synctest.Wait()
		var got []string
		for _, q := range r.requests {
			require.Equal(t, q.Err != nil, q.Code != "")
			got = append(got, fmt.Sprintf("%s %s %v %s", q.Op, q.Path, q.Took, q.Code))
		}
		require.Equal(t, []string{
			"create /x 10ms ", "create /x 10ms node-exists", "multi /x 10ms ", "multi /y 10ms no-node", "exists /x 0s ", "exists /x 0s invalid-acl",
			"children /x 0s no-node", "sync / 0s ", "set /x 10ms connection-loss",
		}, got[:9])
	})
}

// A client asks for a quorum by a transaction on the root, and may not be permitted to read that.
func TestTracer_UnreadableRoot_IsNoError(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c, r := dial(t, srv, "a")
		_, err := c.SetACL(t.Context(), "/", zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
		require.NoError(t, err)
		h, err := newMutex(t, c).Lock(t.Context())
		require.NoError(t, err)
		srv.Cut(zktest.Everyone)
		require.NoError(t, c.Ready(t.Context()))
		require.NoError(t, h.Check(t.Context()))
		synctest.Wait()
		asked := slices.DeleteFunc(r.requests, func(q zkrecipes.Request) bool { return q.Op != "multi" || q.Path != "/" })
		require.NotEmpty(t, asked)
		for _, q := range asked {
			require.NoError(t, q.Err)
		}
	})
}

func TestTracer_RequestsOfAnAcquisition_HaveItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := dial(t, zktest.Run(t, zktest.InMemory()), "a")
		h, err := newMutex(t, c).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
		synctest.Wait()
		require.Equal(t, "create", r.requests[0].Op)
		require.Equal(t, "mutex", r.within[0])
		// The watch on the contender is set concurrently with the hold, and may be requested as the hold is released.
		deletes := slices.DeleteFunc(slices.Clone(r.requests), func(q zkrecipes.Request) bool { return q.Op != "delete" })
		require.Len(t, deletes, 1)
		require.Equal(t, h.Path(), deletes[0].Path)
	})
}

// In every call the tracer takes the locks of the session and of the client, which would block forever if one were
// held.
func TestTracer_IsCalledWithoutALock(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c, r := dial(t, srv, "a")
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		r.peek = func() {
			s.ValidUntil()
			c.Status()
		}
		r.look = func() {
			r.peek()
			_, _ = c.Session(t.Context())
		}
		m := newMutex(t, c)
		for _, fault := range []func(){
			func() {}, func() { srv.Cut(zktest.Everyone) }, func() { srv.Expire(srv.SessionOf("a")) }, func() { _ = c.Close() },
		} {
			h, err := m.Lock(t.Context())
			require.NoError(t, err)
			fault()
			_ = h.Release(t.Context()) // it may be lost
			synctest.Wait()
		}
		require.Len(t, r.connects, 4, "the first, after the cut, and two after the expiry")
	})
}

// The caller gives up while a tracer is notified of the hold: the hold ends, and its session is not kept proven for it.
func TestTracer_CallerGoesAsTheHoldBegins_HoldEnds(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		r := &recorder{}
		r.look = func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.order) > 1 && r.order[len(r.order)-1] == "acquire mutex" { // the next call is for the hold
				cancel(why)
			}
		}
		c := bubble.Dial(t, srv, "a", conn.WithTracer(&zkrecipes.Tracer{
			AcquireStart: r.acquireStart, AcquireEnd: r.acquireEnd, HoldStart: r.holdStart, HoldEnd: r.holdEnd,
		}))
		m := newMutex(t, c)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
		h, err = m.Lock(ctx)
		require.ErrorIs(t, err, why)
		require.Nil(t, h)
		require.Equal(t, []string{"hold mutex", "end mutex true", "canceled mutex"}, r.seen()[5:])
		require.Nil(t, r.held[1].Lost)
		require.Empty(t, srv.Children("/lock"))
		time.Sleep(time.Minute)
		require.Zero(t, bubble.Syncs(srv, zktest.Everyone))
	})
}

// A client that acquires repeatedly is granted without a listing, and is at the head.
func TestTracer_GrantedWithoutAListing_IsAtPlaceOne(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c, r := dial(t, srv, "a")
		m := newMutex(t, c)
		lists := 0
		for range 6 {
			rule := srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Times: -1}, zktest.Proceed())
			h, err := m.Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, h.Release(t.Context()))
			synctest.Wait()
			lists = rule.Hits()
			rule.Remove()
		}
		require.Zero(t, lists, "or this test shows nothing")
		for _, a := range r.acquired {
			require.Equal(t, 1, a.Position)
		}
	})
}

// Several tracers get each other's contexts.
func TestTracer_Several(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		one := &recorder{}
		two := &zkrecipes.Tracer{HoldStart: func(ctx context.Context, h zkrecipes.HoldStart) context.Context {
			require.Equal(t, h.Token, ctx.Value(key("hold")))
			return ctx
		}}
		c := bubble.Dial(t, srv, "a", conn.WithTracer(one.tracer(), two))
		require.Equal(t, []string{"connected"}, one.seen())
		h, err := newMutex(t, c).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
		require.Equal(t, []string{"acquire mutex", "hold mutex", "granted mutex", "end mutex true"}, one.seen())
	})
}

func TestWithTracer_WithoutAHook_IsRefused(t *testing.T) {
	_, err := conn.Dial(t.Context(), "127.0.0.1:1", conn.WithTracer(nil))
	require.ErrorContains(t, err, "tracer: nil")
	_, err = conn.Dial(t.Context(), "127.0.0.1:1", conn.WithTracer(&zkrecipes.Tracer{}))
	require.ErrorContains(t, err, "tracer: all hooks are nil")
}

func TestAcquireEnd_Outcome(t *testing.T) {
	closed := &zkrecipes.WaitError{Err: zkrecipes.ErrClosed}
	require.Equal(t, "canceled", zkrecipes.AcquireEnd{Err: closed}.Outcome(), "a context may end for any reason")
	require.Equal(t, "failed", zkrecipes.AcquireEnd{Err: errors.New("x")}.Outcome())
	require.Equal(t, "busy", zkrecipes.AcquireEnd{Err: &zkrecipes.BusyError{}}.Outcome())
}

func TestNames(t *testing.T) {
	for _, bad := range []string{"", "a\xff", string(make([]byte, 101))} {
		_, err := mutex.New(nil, "/lock", mutex.WithTracerName(bad))
		require.ErrorContains(t, err, fmt.Sprintf("tracer name %q: want valid UTF-8 of 1 to 100 bytes", bad))
	}
}
