package znode_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/znode"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// absence is a period without a connection between the moment the client "a" gets its turn and its hold. During it, the
// nodes of "a" are deleted by hand and another client is granted.
type absence struct {
	t     *testing.T
	srv   *zktest.Server
	a     *client.Client
	c     *client.Client // the other's client
	lock  func(context.Context, *client.Client) (*zkrecipes.Hold, error)
	other atomic.Pointer[zkrecipes.Hold]
	over  chan struct{}
}

func newAbsence(t *testing.T, srv *zktest.Server) *absence {
	t.Helper()
	x := &absence{t: t, srv: srv, a: dial(t, srv, "a"), c: dial(t, srv, "c"), over: make(chan struct{})}
	x.lock = func(ctx context.Context, c *client.Client) (*zkrecipes.Hold, error) {
		return queueWith(t, c, nil).Acquire(ctx, entry)
	}
	return x
}

// begin starts an acquisition of "a". When it is granted, the other client must not hold.
func (x *absence) begin(acquire func(context.Context) (*zkrecipes.Hold, error)) *bubble.Attempt {
	return bubble.Start(x.t.Context(), func(ctx context.Context) (*zkrecipes.Hold, error) {
		h, err := acquire(ctx)
		if other := x.other.Load(); err == nil && other != nil && other.Err() == nil && h.Err() == nil {
			x.t.Errorf("two hold: %d and %d; the node of the first is there: %v", h.Token(), other.Token(),
				x.srv.Exists(h.Path()))
		}
		return h, err
	})
}

// lockAs starts an acquisition of "a" by a rule that makes "a" absent before it reports a grant.
func (x *absence) lockAs(q *znode.Queue, e znode.Entry) *bubble.Attempt {
	rule := e.Rule
	e.Rule = func(queue []znode.Contender, me int) (int, bool) {
		predecessor, granted := rule(queue, me)
		// Otherwise the rule is queried about the predecessor.
		if granted && me == len(queue)-1 && x.other.Load() == nil {
			x.pass()
			x.back()
		}
		return predecessor, granted
	}
	return x.begin(func(ctx context.Context) (*zkrecipes.Hold, error) { return q.Acquire(ctx, e) })
}

func (x *absence) pass() {
	x.srv.Refuse(zktest.Label("a"))
	x.srv.Cut(zktest.Label("a"))
	for _, n := range slices.Backward(x.srv.Tree("/app")) {
		if n.Stat.EphemeralOwner != 0 {
			assert.NoError(x.t, x.srv.Delete(n.Path))
		}
	}
	h, err := x.lock(x.t.Context(), x.c)
	if assert.NoError(x.t, err) {
		x.other.Store(h)
	}
	x.srv.Accept(zktest.Label("a"))
	close(x.over)
}

// back returns when "a" is connected again.
func (x *absence) back() {
	for x.a.State() != zkrecipes.Connected {
		time.Sleep(10 * time.Millisecond)
	}
}

// settle lets everything in flight arrive.
func (x *absence) settle(mine *bubble.Attempt) {
	time.Sleep(100 * time.Millisecond)
	mine.Waits(x.t)
}

// proves reports whether a request may be for a proof of the session.
func proves(r zktest.Request) bool { return r.Op == zktest.OpSync || r.Op == zktest.OpMulti }

// onProof makes "a" absent when it next requests a proof of its session. Its earlier requests are answered.
func (x *absence) onProof() {
	x.srv.Intercept(zktest.Match{From: zktest.Label("a"), Where: proves}, zktest.Before(func(zktest.Request) {
		time.Sleep(time.Millisecond)
		x.pass()
	}))
}

// onCreate makes "a" absent after the late answer to its next request of type op.
func (x *absence) onCreate(op zktest.Op) { lateAnswer(x.srv, op, x.onProof) }

// lateAnswer delays the answer to the next request of type op from "a", so that the proof has become short, and calls
// f before the answer. It returns at the moment when the proof is shortest: most of the time between two pings has
// passed.
func lateAnswer(srv *zktest.Server, op zktest.Op, f func()) {
	pinged := make(chan struct{})
	srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpPing, Skip: 3},
		zktest.After(func(zktest.Request) { close(pinged) }))
	srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: op}, zktest.Before(func(zktest.Request) {
		time.Sleep(bubble.Timeout * 24 / 100)
		f()
	}))
	<-pinged
	time.Sleep(bubble.Timeout * 24 / 100)
}

func (x *absence) semaphore(c *client.Client) *znode.Semaphore {
	m, err := znode.NewSemaphore(c, "/app/semaphore", recipe.Config{}, nil)
	require.NoError(x.t, err)
	return m
}

// leases describes all existing leases. Once the limit has been requested asked times, "a" is absent before it gets the
// answer.
func (x *absence) leases(asked int, changed func(*session.Session) *session.Watch) znode.Leases {
	return znode.Leases{Count: 1, Limit: func(_ context.Context, s *session.Session) (int, *session.Watch, error) {
		if asked--; asked == 0 {
			x.pass()
			x.back()
		}
		return 1, changed(s), nil
	}}
}

// Two clients held at once, until the older one had read its node: it had its turn and requested a proof, then the
// connection was lost and its node deleted by hand.
func TestAbsence_BetweenTheTurnAndTheHold_NodeDeleted_IsNotGranted(t *testing.T) {
	idle := 2 * bubble.Timeout // the proof has lapsed
	for name, begin := range map[string]func(*absence) *bubble.Attempt{
		"by a list at once": func(x *absence) *bubble.Attempt {
			return x.lockAs(queueWith(x.t, x.a, nil), entry)
		},
		"by a list at once, and a late proof": func(x *absence) *bubble.Attempt {
			x.onCreate(zktest.OpCreate)
			return x.begin(func(ctx context.Context) (*zkrecipes.Hold, error) { return x.lock(ctx, x.a) })
		},
		"by a list after an event": func(x *absence) *bubble.Attempt {
			first := acquire(x.t.Context(), queue(x.t, x.srv, "b")).Granted(x.t, time.Hour)
			second := acquire(x.t.Context(), queue(x.t, x.srv, "d"))
			x.settle(second)
			mine := x.lockAs(queueWith(x.t, x.a, nil), entry)
			x.settle(mine)
			release(x.t, first)
			release(x.t, second.Granted(x.t, time.Second))
			return mine
		},
		"by the shortcut": func(x *absence) *bubble.Attempt {
			q := queueWith(x.t, x.a, nil)
			for range 5 {
				section(x.t, q)
			}
			x.onCreate(zktest.OpCreate)
			mine := x.begin(func(ctx context.Context) (h *zkrecipes.Hold, err error) {
				return q.Acquire(ctx, entry)
			})
			lists := x.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetChildren2, Times: -1},
				zktest.Proceed())
			x.t.Cleanup(func() { require.LessOrEqual(x.t, lists.Hits(), 1, "of the acquisition after the absence") })
			return mine
		},
		"armed": func(x *absence) *bubble.Attempt {
			holder := acquire(x.t.Context(), queue(x.t, x.srv, "b")).Granted(x.t, time.Hour)
			mine := x.begin(func(ctx context.Context) (*zkrecipes.Hold, error) { return x.lock(ctx, x.a) })
			time.Sleep(idle)
			x.onProof()
			release(x.t, holder)
			return mine
		},
		"handed over": func(x *absence) *bubble.Attempt {
			q := queueWith(x.t, x.a, nil)
			holder := acquire(x.t.Context(), q).Granted(x.t, time.Hour)
			mine := x.begin(func(ctx context.Context) (*zkrecipes.Hold, error) { return q.Acquire(ctx, entry) })
			x.settle(mine)
			time.Sleep(idle)
			x.srv.Refuse(zktest.Label("a"))
			x.srv.Cut(zktest.Label("a"))
			time.Sleep(time.Until(holder.ValidUntil()) - bubble.Timeout*3/10) // too short for a grant
			unproven := x.srv.Intercept(zktest.Match{From: zktest.Label("a"), Where: proves, Times: -1},
				zktest.Fail(zktest.CodeThrottled))
			x.srv.Accept(zktest.Label("a"))
			x.back()
			x.settle(mine)
			x.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpDelete}, zktest.Before(func(zktest.Request) {
				time.Sleep(time.Millisecond)
				x.pass()
				unproven.Remove()
			}))
			leave(x.t, holder)
			return mine
		},
		"eager and third": func(x *absence) *bubble.Attempt { return x.eager(1, idle) },
		"eager and later": func(x *absence) *bubble.Attempt { return x.eager(2, idle) },
		"leases instead of the door": func(x *absence) *bubble.Attempt {
			x.lock = func(ctx context.Context, c *client.Client) (*zkrecipes.Hold, error) {
				return x.semaphore(c).Acquire(ctx, x.leases(-1, func(*session.Session) *session.Watch { return nil }))
			}
			fired := func(s *session.Session) *session.Watch {
				_, _, w, err := s.ExistsW(x.t.Context(), "/app/limit")
				assert.NoError(x.t, err)
				if x.srv.Exists("/app/limit") {
					assert.NoError(x.t, x.srv.Delete("/app/limit"))
				} else {
					_, err = x.srv.Create("/app/limit", nil, zktest.Persistent)
					assert.NoError(x.t, err)
				}
				return w
			}
			section := x.leases(2, fired)
			return x.begin(func(ctx context.Context) (*zkrecipes.Hold, error) { return x.semaphore(x.a).Acquire(ctx, section) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				x := newAbsence(t, srv)
				section(t, queueWith(t, x.c, nil)) // creates the parents
				srv.SetLatency(time.Millisecond)
				mine := begin(x)
				select {
				case <-x.over:
				case <-time.After(time.Minute):
					t.Fatal("was not absent")
				}
				time.Sleep(idle)
				mine.Waits(t)
				release(t, x.other.Load())
				release(t, mine.Granted(t, time.Second))
			})
		})
	}
}

// eager is armed by an early look, behind the given number of others, of which the last one holds.
func (x *absence) eager(others int, idle time.Duration) *bubble.Attempt {
	h := acquire(x.t.Context(), queue(x.t, x.srv, "b")).Granted(x.t, time.Hour)
	var waiting []*bubble.Attempt
	for i := range others {
		waiting = append(waiting, acquire(x.t.Context(), queue(x.t, x.srv, string(rune('d'+i)))))
		x.settle(waiting[i])
	}
	q, err := znode.New(x.a, path, recipe.Config{HandOver: zkrecipes.HandOverEager}, znode.Lock)
	require.NoError(x.t, err)
	mine := x.begin(func(ctx context.Context) (*zkrecipes.Hold, error) { return q.Acquire(ctx, entry) })
	for _, next := range waiting {
		x.settle(mine)
		release(x.t, h)
		h = next.Granted(x.t, time.Second)
	}
	time.Sleep(idle)
	x.onProof()
	release(x.t, h)
	return mine
}

// TestAbsence_NodeStands_IsGranted: it is granted as soon as the node has been seen on the new connection.
func TestAbsence_NodeStands_IsGranted(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		holder, waiting, own := second(t, srv)
		time.Sleep(2 * bubble.Timeout)
		srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpSync}, zktest.DropRequest())
		release(t, holder)
		h := waiting.Granted(t, time.Second)
		require.Equal(t, own, h.Path())
		release(t, h)
	})
}

// TestAbsence_BeforeTheList_AsksNothing: the list has shown the node on the new connection.
func TestAbsence_BeforeTheList_AsksNothing(t *testing.T) {
	inBubbleWith(t, false, func(t *testing.T, srv *zktest.Server) {
		holder, waiting, _ := second(t, srv)
		srv.Cut(zktest.Label("b"))
		time.Sleep(time.Second)
		waiting.Waits(t)
		asked := srv.Intercept(zktest.Match{From: zktest.Label("b"), Op: zktest.OpExists, Times: -1}, zktest.Proceed())
		release(t, holder)
		release(t, waiting.Granted(t, time.Second))
		require.Zero(t, asked.Hits())
	})
}
