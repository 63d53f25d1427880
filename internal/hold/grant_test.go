package hold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/layout"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const kind = "lock-"

// contender creates a node.
func contender(t *testing.T, c *conn.Client) *ephemeral.Node {
	t.Helper()
	parent := &ephemeral.Parent{Client: (*client.Client)(c), Path: "/app/lock"}
	s, err := parent.Client.Session(t.Context())
	require.NoError(t, err)
	n, err := parent.Create(t.Context(), s, ephemeral.Spec{Kind: kind}, nil)
	require.NoError(t, err)
	return n
}

// give creates a node and the hold on it.
func give(t *testing.T, c *conn.Client) (*ephemeral.Parent, *zkrecipes.Hold, *Grant) {
	t.Helper()
	n := contender(t, c)
	h, err := FromTurn(t.Context(), Turn{Node: n, Token: zkrecipes.Token(n.Czxid)}, nil)
	require.NoError(t, err)
	g, ok := Above(h.Context(), n.Parent, kind)
	require.True(t, ok)
	return n.Parent, h, g
}

// TestRelease_WhileAnotherHoldIsBeingLost: a hold is released while its grant is being lost, before another hold on the
// same contender has ended. The release deleted the node, so another client was granted, while that hold said that it
// was held until the goroutine of the loss came back.
func TestRelease_WhileAnotherHoldIsBeingLost(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		parent, outer, g := give(t, bubble.Dial(t, srv, "a"))
		inner, ok := Again(outer.Context(), parent, kind)
		require.True(t, ok)
		srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.Delay(time.Second))

		g.end(&zkrecipes.LostError{Reason: zkrecipes.LossSuspended}) // what lose does first
		start := time.Now()
		require.NoError(t, inner.Release(t.Context()))
		require.Equal(t, time.Second, time.Since(start))
		require.Empty(t, srv.Ephemerals(srv.SessionOf("a")))
		require.ErrorIs(t, inner.Err(), zkrecipes.ErrReleased)
		var lost *zkrecipes.LostError
		require.ErrorAs(t, outer.Err(), &lost)
		require.Equal(t, zkrecipes.LossSuspended, lost.Reason)
		require.Equal(t, outer.Path(), lost.Path)
	})
}

// TestTxn_OpsThatFailOnTheContender: a mistake in the caller's own ops is returned as such. Nothing is written, and the
// hold is still held.
func TestTxn_OpsThatFailOnTheContender(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		_, h, _ := give(t, bubble.Dial(t, srv, "a"))
		remove := zkrecipes.OpDelete(h.Path(), -1)
		for name, ops := range map[string][]zkrecipes.Op{
			"deleted twice":      {remove, remove},
			"deleted, then set":  {remove, zkrecipes.OpSet(h.Path(), nil, -1)},
			"deleted, then read": {remove, zkrecipes.OpCheck(h.Path(), -1)},
		} {
			_, err := h.Txn(t.Context(), ops...)
			require.ErrorIs(t, err, zk.ErrNoNode, name)
			require.NotErrorIs(t, err, zkrecipes.ErrFenced, name)
			require.NoError(t, h.Err(), name)
			require.NoError(t, h.Check(t.Context()), name)
		}
		require.NoError(t, srv.Delete(h.Path()))
		_, err := h.Txn(t.Context(), remove, remove)
		require.ErrorIs(t, err, zkrecipes.ErrFenced)
		require.ErrorIs(t, h.Err(), zkrecipes.ErrLost)
	})
}

// TestHeld_DeadlinePassed: the session has not reported its loss yet. Nothing is granted without a proof, not even
// alongside a hold that has not been queried yet.
func TestHeld_DeadlinePassed(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		parent, outer, g := give(t, bubble.Dial(t, srv, "a"))
		inner, ok := Again(outer.Context(), parent, kind)
		require.True(t, ok)
		require.True(t, g.IsHeld())
		g.stopLoss()
		srv.Stall(zktest.Label("a"), zktest.Both)
		time.Sleep(time.Until(outer.ValidUntil()))
		require.False(t, g.IsHeld())
		_, ok = Again(inner.Context(), parent, kind)
		require.False(t, ok)
		_, ok = Above(inner.Context(), parent, kind)
		require.False(t, ok)
	})
}

// TestLoss_IsLoggedOnce: every kind of loss is logged for operators. A release is not a loss.
func TestLoss_IsLoggedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(srv *zktest.Server, h *zkrecipes.Hold, g *Grant)
		says string // "" is nothing
	}{
		"session expired": {func(srv *zktest.Server, h *zkrecipes.Hold, _ *Grant) {
			srv.LoseWatch(zktest.Label("a"), h.Path()) // or the server might report the deletion first
			srv.Expire(srv.SessionOf("a"))
			<-h.Done()
		}, "level=WARN msg=\"zookeeper: hold lost\" path=PATH token=TOKEN reason=expired held=1m0s session=SESSION"},
		"deleted by hand": {func(srv *zktest.Server, h *zkrecipes.Hold, _ *Grant) {
			_ = srv.Delete(h.Path()) // it exists
			<-h.Done()
		}, "level=WARN msg=\"zookeeper: hold lost\" path=PATH token=TOKEN reason=node-deleted held=1m0s session=SESSION"},
		"found out by the holder": {func(srv *zktest.Server, h *zkrecipes.Hold, g *Grant) {
			g.stopLoss() // as in a process that was frozen: the holder checks first
			srv.Stall(zktest.Label("a"), zktest.Both)
			synctest.Wait() // an answer may be in flight
			time.Sleep(time.Until(h.ValidUntil()))
			_ = h.Err()
			srv.Heal(zktest.Label("a"))
		}, "level=WARN msg=\"zookeeper: hold lost\" path=PATH token=TOKEN reason=deadline held=HELD session=SESSION"},
		"client closed": {func(_ *zktest.Server, _ *zkrecipes.Hold, g *Grant) {
			_ = g.Node.Parent.Client.Close() // never fails
		}, "level=INFO msg=\"zookeeper: hold lost\" path=PATH token=TOKEN reason=closed held=1m0s session=SESSION " +
			"error=\"client closed\""},
		"released": {func(_ *zktest.Server, h *zkrecipes.Hold, _ *Grant) {
			_ = h.Release(context.Background())
		}, ""},
		"released with its own context": {func(_ *zktest.Server, h *zkrecipes.Hold, _ *Grant) {
			_ = h.Release(h.Context())
		}, ""},
		"released with the context of another that was lost": {func(_ *zktest.Server, h *zkrecipes.Hold, _ *Grant) {
			other, lose := zkrecipes.NewHold(context.Background(), proven{time.Now().Add(time.Minute)})
			lose(&zkrecipes.LostError{Reason: zkrecipes.LossExpired, Path: other.Path()})
			_ = h.Release(other.Context())
		}, ""},
		"released while it is checked": {func(srv *zktest.Server, h *zkrecipes.Hold, _ *Grant) {
			srv.Intercept(zktest.Match{Op: zktest.OpSync, Path: h.Path()}, zktest.HoldReply(time.Second))
			checked := make(chan struct{})
			go func() {
				defer close(checked)
				_ = h.Check(context.Background())
			}()
			synctest.Wait()
			_ = h.Release(context.Background())
			<-checked
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				var log bytes.Buffer
				handler := slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == slog.TimeKey {
						return slog.Attr{}
					}
					return a
				}})
				_, h, g := give(t, bubble.Dial(t, srv, "a", conn.WithLogger(slog.New(handler))))
				session := fmt.Sprintf("0x%x", srv.SessionOf("a"))
				time.Sleep(time.Minute)
				tt.end(srv, h, g)
				held := time.Since(h.Since())
				require.Error(t, h.Err())
				time.Sleep(time.Minute)
				synctest.Wait() // a separate goroutine writes the log
				var lines []string
				for line := range strings.Lines(log.String()) {
					if strings.Contains(line, "hold lost") {
						lines = append(lines, strings.TrimSpace(line))
					}
				}
				want := strings.NewReplacer(
					"PATH", h.Path(), "TOKEN", h.Token().String(), "SESSION", session,
					"HELD", held.Round(time.Millisecond).String(),
				).Replace(tt.says)
				require.Equal(t, want, strings.Join(lines, "\n"))
			})
		})
	}
}

// TestCheck_ServerDoesNotSay: the answer is unknown, and the hold is still held.
func TestCheck_ServerDoesNotSay(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpSync, zktest.OpExists} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			_, h, _ := give(t, bubble.Dial(t, srv, "a"))
			srv.Intercept(zktest.Match{Op: op, Path: h.Path()}, zktest.Fail(zktest.CodeNoAuth))
			require.ErrorIs(t, h.Check(t.Context()), zk.ErrNoAuth)
			require.NoError(t, h.Err())
			require.NoError(t, h.Check(t.Context()))
		})
	}
}

// TestTxn_SessionEnds: if the transaction was sent, it may have been applied. If it was not, it never will be.
func TestTxn_SessionEnds(t *testing.T) {
	for _, sent := range []bool{true, false} {
		t.Run(fmt.Sprintf("sent=%v", sent), func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := bubble.Dial(t, srv, "a")
				_, h, _ := give(t, c)
				if sent {
					srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^/data$"}, zktest.HoldReply(time.Hour))
				} else {
					trial.CutOff(srv, zktest.Label("a"))
				}
				synctest.Wait()
				outcome := make(chan error)
				go func() {
					_, err := h.Txn(t.Context(), zkrecipes.OpCreate("/data", nil, 0))
					outcome <- err
				}()
				synctest.Wait()
				if sent {
					require.NoError(t, c.Close())
				} else {
					srv.Expire(srv.SessionOf("a"))
					srv.Accept(zktest.Label("a"))
				}
				err := <-outcome
				require.Equal(t, sent, srv.Exists("/data"))
				require.Equal(t, sent, errors.Is(err, zkrecipes.ErrUnknownOutcome), err)
				require.Equal(t, !sent, errors.Is(err, zkrecipes.ErrFenced), err)
				require.ErrorIs(t, h.Err(), zkrecipes.ErrLost)
			})
		})
	}
}

// TestTxn_AnotherHoldIsLost_IsNotFenced: the context of a transaction ends with the loss of another hold. The one that
// guards the transaction is still held.
func TestTxn_AnotherHoldIsLost_IsNotFenced(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		_, other, _ := give(t, c)
		_, h, _ := give(t, c)
		require.NoError(t, srv.Delete(other.Path()))
		<-other.Done()
		_, err := h.Txn(other.Context(), zkrecipes.OpCreate("/data", nil, 0))
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.NotErrorIs(t, err, zkrecipes.ErrFenced)
		require.NoError(t, h.Check(t.Context()))
		require.NoError(t, srv.Delete(h.Path()))
		<-h.Done()
		_, err = h.Txn(h.Context(), zkrecipes.OpCreate("/data", nil, 0))
		require.ErrorIs(t, err, zkrecipes.ErrFenced)
	})
}

// TestTxn_HoldEndsBeforeItIsSent_IsFenced: a transaction waits for a connection when the hold ends whose context it
// has. The hold that guards it is that one, or another on the same contender, which is about to end too.
func TestTxn_HoldEndsBeforeItIsSent_IsFenced(t *testing.T) {
	for name, end := range map[string]func(g *Grant, outer, inner *zkrecipes.Hold) (through *zkrecipes.Hold){
		"released": func(_ *Grant, _, inner *zkrecipes.Hold) *zkrecipes.Hold {
			time.AfterFunc(time.Second, func() { _ = inner.Release(inner.Context()) })
			return inner
		},
		"one lost, the other about to be": func(g *Grant, outer, _ *zkrecipes.Hold) *zkrecipes.Hold {
			time.AfterFunc(time.Second, func() { // the first steps of endHolds
				why := &zkrecipes.LostError{Reason: zkrecipes.LossNodeDeleted, Path: outer.Path()}
				g.end(why)
				backingOf(outer.Context()).end(why)
			})
			return outer
		},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				parent, outer, g := give(t, bubble.Dial(t, srv, "a"))
				inner, ok := Again(outer.Context(), parent, kind)
				require.True(t, ok)
				trial.CutOff(srv, zktest.Label("a"))
				synctest.Wait()
				_, err := inner.Txn(end(g, outer, inner).Context(), zkrecipes.OpCreate("/data", nil, 0))
				require.ErrorIs(t, err, zkrecipes.ErrFenced)
			})
		})
	}
}

// TestTxn_OpOfTheCallerFails: the guard held, so nothing more is requested.
func TestTxn_OpOfTheCallerFails(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		_, h, _ := give(t, bubble.Dial(t, srv, "a"))
		for _, c := range []struct {
			op zkrecipes.Op
			is error
		}{
			{zkrecipes.OpDelete("/none", -1), zk.ErrNoNode},
			{zkrecipes.OpSet(h.Path(), nil, 7), zk.ErrBadVersion},
		} {
			sent := bubble.Requests(srv)
			_, err := h.Txn(t.Context(), c.op)
			require.ErrorIs(t, err, c.is)
			require.Equal(t, 1, sent.Hits())
			sent.Remove()
		}
	})
}

// TestTxn_NoOp_IsRefused: an invalid op fails the transaction before it is sent, and the hold is still held.
func TestTxn_NoOp_IsRefused(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		_, h, _ := give(t, bubble.Dial(t, srv, "a"))
		sent := bubble.Requests(srv)
		_, err := h.Txn(t.Context(), zkrecipes.Op{Kind: "delete it"})
		require.Error(t, err)
		require.NotErrorIs(t, err, zkrecipes.ErrFenced)
		require.Zero(t, sent.Hits())
		require.NoError(t, h.Err())
	})
}

// onHold returns a tracer that calls f while a hold is being made.
func onHold(f func()) *zkrecipes.Tracer {
	return &zkrecipes.Tracer{HoldStart: func(ctx context.Context, _ zkrecipes.HoldStart) context.Context {
		f()
		return ctx
	}}
}

// TestFromTurn_EndsAsItIsMade: the session, the connection or the caller ends between the proof and the hold. Then no
// hold is made, and the session is not kept proven.
func TestFromTurn_EndsAsItIsMade(t *testing.T) {
	why := errors.New("why")
	for name, tt := range map[string]struct {
		end func(srv *zktest.Server, s *session.Session, cancel context.CancelCauseFunc)
		is  error
	}{
		"session expires": {func(srv *zktest.Server, s *session.Session, _ context.CancelCauseFunc) {
			srv.Expire(s.ID())
			<-s.Done()
		}, zkrecipes.ErrLost},
		"disconnect": {func(srv *zktest.Server, _ *session.Session, _ context.CancelCauseFunc) {
			srv.Cut(zktest.Label("a"))
			time.Sleep(time.Second)
		}, ephemeral.ErrGone},
		"caller goes": {func(_ *zktest.Server, _ *session.Session, cancel context.CancelCauseFunc) { cancel(why) }, why},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var n *ephemeral.Node
				n = contender(t, bubble.Dial(t, srv, "a", conn.WithTracer(onHold(func() { tt.end(srv, n.Session, cancel) }))))
				_, a := Begin(ctx, n.Parent.Client, zkrecipes.AcquireStart{Recipe: "mutex", Path: n.Parent.Path})
				h, err := FromTurn(ctx, Turn{Node: n, Token: zkrecipes.Token(n.Czxid), Config: recipe.Config{LossOnSuspend: true}}, a)
				require.ErrorIs(t, err, tt.is)
				require.Nil(t, h)
				n.Remove()
				require.NoError(t, n.WaitRemoved(t.Context()))
				require.Zero(t, bubble.Syncs(srv, zktest.Everyone))
			})
		})
	}
}

// TestFromTurn_LossOnSuspend_WaitsForTheConnection: the session is proven, but not connected. A hold would be lost
// immediately, so none is made until the session is connected again. Until then the caller may give up; afterwards the
// hold ends with the next disconnect.
func TestFromTurn_LossOnSuspend_WaitsForTheConnection(t *testing.T) {
	for _, goes := range []bool{true, false} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			n := contender(t, bubble.Dial(t, srv, "a"))
			trial.CutOff(srv, zktest.Label("a"))
			synctest.Wait()
			began := time.Now()
			time.AfterFunc(time.Second, func() { srv.Accept(zktest.Label("a")) })
			ctx := t.Context()
			if goes {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Second/2)
				defer cancel()
			}
			h, err := FromTurn(ctx, Turn{Node: n, Token: zkrecipes.Token(n.Czxid), Config: recipe.Config{LossOnSuspend: true}}, nil)
			if goes {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				return
			}
			require.NoError(t, err)
			require.GreaterOrEqual(t, time.Since(began), time.Second)
			require.NoError(t, h.Err())
			srv.Cut(zktest.Label("a"))
			<-h.Done()
			var lost *zkrecipes.LostError
			require.ErrorAs(t, h.Err(), &lost)
			require.Equal(t, zkrecipes.LossSuspended, lost.Reason)
		})
	}
}

// TestWatch_CannotBeSet_IsLogged: the log shows operators why a deletion went unnoticed, unless the session has ended.
func TestWatch_CannotBeSet_IsLogged(t *testing.T) {
	for _, refused := range []bool{true, false} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			var log bytes.Buffer
			c := bubble.Dial(t, srv, "a", conn.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			if refused {
				srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: kind}, zktest.Fail(zktest.CodeNoAuth))
			} else {
				srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: kind}, zktest.HoldReply(time.Hour))
			}
			_, h, _ := give(t, c)
			synctest.Wait()
			srv.Expire(srv.SessionOf("a"))
			<-h.Done()
			synctest.Wait()
			lines := 0
			if refused {
				lines = 1
			}
			require.Equal(t, lines, strings.Count(log.String(), "cannot watch our own node"), log.String())
			require.Equal(t, lines, strings.Count(log.String(), h.Path()+" error="), log.String())
		})
	}
}

// TestFromTurn_CallerGoesBeforeTheProof: nothing is held, so the session is not kept proven.
func TestFromTurn_CallerGoesBeforeTheProof(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		n := contender(t, bubble.Dial(t, srv, "a"))
		time.Sleep(time.Minute) // no proof lasts that long
		srv.Intercept(zktest.Match{Op: zktest.OpSync}, zktest.HoldReply(2*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := FromTurn(ctx, Turn{Node: n, Token: zkrecipes.Token(n.Czxid)}, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		n.Remove()
		require.NoError(t, n.WaitRemoved(t.Context()))
		time.Sleep(time.Minute)
		require.Zero(t, bubble.Syncs(srv, zktest.Everyone))
	})
}

// TestRelease_GrantIsGarbage: a session that lives for months keeps nothing of released holds.
func TestRelease_GrantIsGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.Dial(t, zktest.Run(t, zktest.InMemory()), "a")
		_, other, _ := give(t, c) // keeps the session proven
		released := func() weak.Pointer[Grant] {
			_, h, g := give(t, c)
			synctest.Wait()
			require.NoError(t, h.Release(t.Context()))
			return weak.Make(g)
		}()
		synctest.Wait()
		runtime.GC()
		runtime.GC() // anything with a finalizer is collected by the second
		require.Nil(t, released.Value())
		require.NoError(t, other.Release(t.Context()))
	})
}

// TestWatch_Deletion_EndsTheHoldOnArrival: a read would report it a round trip later.
func TestWatch_Deletion_EndsTheHoldOnArrival(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		_, h, _ := give(t, bubble.Dial(t, srv, "a"))
		synctest.Wait()
		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: -1}, zktest.HoldReply(time.Second))
		require.NoError(t, srv.Delete(h.Path()))
		synctest.Wait()
		var lost *zkrecipes.LostError
		require.ErrorAs(t, h.Err(), &lost)
		require.Equal(t, zkrecipes.LossNodeDeleted, lost.Reason)
	})
}

// A hold went on with a node of the same name that had been created by hand while the connection was down. The hold's
// own node was gone, so another client could have been granted in between.
func TestWatch_DeletedAndMadeAgain_EndsTheHold(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		_, h, _ := give(t, bubble.Dial(t, srv, "a"))
		time.Sleep(time.Second) // the hold watches its node
		srv.Refuse(zktest.Label("a"))
		srv.Cut(zktest.Label("a"))
		require.NoError(t, srv.Delete(h.Path()))
		_, err := srv.Create(h.Path(), nil, zktest.Persistent)
		require.NoError(t, err)
		srv.Accept(zktest.Label("a"))
		time.Sleep(time.Minute)
		var lost *zkrecipes.LostError
		require.ErrorAs(t, h.Err(), &lost)
		require.Equal(t, zkrecipes.LossNodeDeleted, lost.Reason)
	})
}

// TestFromTurn_DeletedBeforeTheProof: the node is deleted while the proof is under way. If it is watched, the server
// reports the deletion.
func TestFromTurn_DeletedBeforeTheProof(t *testing.T) {
	for name, watched := range map[string]bool{"watched": true, "not watched": false} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				n := contender(t, bubble.Dial(t, srv, "a"))
				time.Sleep(time.Minute) // the proof of a session without holds lapses
				turn := Turn{Node: n, Token: 1, NextConnection: n.Session.NextConnection()}
				if watched {
					_, _, watch, err := n.Session.GetW(t.Context(), n.Paths[0])
					require.NoError(t, err)
					turn.Watch = watch
				}
				asked := srv.Intercept(zktest.Match{Op: zktest.OpExists, Times: -1}, zktest.Proceed())
				srv.Intercept(zktest.Match{Op: zktest.OpSync, Times: -1}, zktest.Delay(time.Second))
				go func() {
					time.Sleep(time.Second / 2)
					_ = srv.Delete(n.Paths[0])
				}()
				_, err := FromTurn(t.Context(), turn, nil)
				require.ErrorIs(t, err, ephemeral.ErrGone)
				require.Equal(t, watched, asked.Hits() == 0)
			})
		})
	}
}

// TestFromTurn_MadeAgainBeforeTheProof: another node with the same name is not the contender.
func TestFromTurn_MadeAgainBeforeTheProof(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		n := contender(t, bubble.Dial(t, srv, "a"))
		time.Sleep(90 * time.Second) // each minute, the server deletes empty containers
		turn := Turn{Node: n, Token: 1, NextConnection: n.Session.NextConnection()}
		// Otherwise the sync that FromTurn causes could be answered before FromTurn looks whether it must wait for a proof.
		srv.Intercept(zktest.Match{Op: zktest.OpSync, Times: -1}, zktest.Delay(time.Second))
		require.NoError(t, srv.Delete(n.Paths[0]))
		_, err := srv.Create(n.Paths[0], nil, zktest.Persistent)
		require.NoError(t, err)
		_, err = FromTurn(t.Context(), turn, nil)
		require.ErrorIs(t, err, ephemeral.ErrGone)
	})
}

// TestFromTurn_ProvenAtOnce_AsksNothing: the answer that showed the node is recent enough.
func TestFromTurn_ProvenAtOnce_AsksNothing(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		n := contender(t, bubble.Dial(t, srv, "a"))
		asked := srv.Intercept(zktest.Match{Op: zktest.OpExists, Times: -1}, zktest.Proceed())
		h, err := FromTurn(t.Context(), Turn{Node: n, Token: 1, NextConnection: n.Session.NextConnection()}, nil)
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
		require.Zero(t, asked.Hits())
	})
}

// TestFromTurn_GoesOnWithTheWatchOfTheWaiter: a short hold reads nothing. A longer one reads its node in case the event
// was withheld.
func TestFromTurn_GoesOnWithTheWatchOfTheWaiter(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(t *testing.T, srv *zktest.Server, path string)
		reads int
		lost  bool
		asked bool
	}{
		"nothing": {func(*testing.T, *zktest.Server, string) {}, 0, false, false},
		"deleted": {func(t *testing.T, srv *zktest.Server, path string) {
			t.Helper()
			require.NoError(t, srv.Delete(path))
		}, 0, true, false},
		"asked to release": {func(t *testing.T, srv *zktest.Server, path string) {
			t.Helper()
			require.NoError(t, srv.Set(path, []byte(layout.RevokeRequest)))
		}, 1, false, true},
		"asked before": {func(t *testing.T, srv *zktest.Server, path string) {
			t.Helper()
			srv.LoseWatch(zktest.Everyone, path)
			require.NoError(t, srv.Set(path, []byte(layout.RevokeRequest)))
			time.Sleep(readAfter)
		}, 1, false, true},
		"deleted unheard": {func(t *testing.T, srv *zktest.Server, path string) {
			t.Helper()
			srv.LoseWatch(zktest.Everyone, path)
			require.NoError(t, srv.Delete(path))
			time.Sleep(readAfter)
		}, 1, true, false},
		"released": {nil, 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				n := contender(t, bubble.Dial(t, srv, "a"))
				_, _, watch, err := n.Session.GetW(t.Context(), n.Paths[0])
				require.NoError(t, err)
				reads := srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: -1}, zktest.Proceed())
				h, err := FromTurn(t.Context(), Turn{Node: n, Token: 1, Watch: watch}, nil)
				require.NoError(t, err)
				time.Sleep(readAfter - 1)
				require.Zero(t, reads.Hits())
				if c.do == nil {
					require.NoError(t, h.Release(t.Context()))
					time.Sleep(time.Minute)
				} else {
					c.do(t, srv, h.Path())
					synctest.Wait()
					require.Equal(t, c.lost, errors.Is(h.Err(), zkrecipes.ErrLost))
				}
				require.Equal(t, c.reads, reads.Hits())
				asked := false
				select {
				case <-h.Revoked():
					asked = true
				default:
				}
				require.Equal(t, c.asked, asked)
			})
		})
	}
}

// turns is a place that counts how often it is passed on.
type turns int

func (n *turns) PassOn() { *n++ }

// TestRelease_TellsThatItWasOne: a hold that finds its deadline passed also removes its node, and so does one that is
// released while its session reports a loss. Neither passes its place on.
func TestRelease_TellsThatItWasOne(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(t *testing.T, h *zkrecipes.Hold, g *Grant)
		told int
	}{
		"released twice": {func(t *testing.T, h *zkrecipes.Hold, _ *Grant) {
			t.Helper()
			require.NoError(t, h.Release(t.Context()))
			require.NoError(t, h.Release(t.Context()))
		}, 1},
		"lapsed": {func(_ *testing.T, h *zkrecipes.Hold, _ *Grant) {
			backingOf(h.Context()).Lapse(time.Now())
		}, 0},
		"released while it is lost": {func(t *testing.T, h *zkrecipes.Hold, g *Grant) {
			t.Helper()
			g.end(&zkrecipes.LostError{Reason: zkrecipes.LossExpired}) // what a loss does first
			require.NoError(t, h.Release(t.Context()))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := contender(t, bubble.Dial(t, zktest.Run(t, zktest.InMemory()), "a"))
				var told turns
				h, err := FromTurn(t.Context(), Turn{Node: n, Token: 1, Place: &told}, nil)
				require.NoError(t, err)
				g, ok := Above(h.Context(), n.Parent, kind)
				require.True(t, ok)
				c.end(t, h, g)
				require.NoError(t, n.WaitRemoved(t.Context()))
				require.EqualValues(t, c.told, told)
			})
		})
	}
}

// TestRelease_TellsTheTracer: once, and that it was not a loss.
func TestRelease_TellsTheTracer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []zkrecipes.HoldEnd
		tracer := &zkrecipes.Tracer{HoldEnd: func(_ context.Context, end zkrecipes.HoldEnd) { told = append(told, end) }}
		n := contender(t, bubble.Dial(t, zktest.Run(t, zktest.InMemory()), "a", conn.WithTracer(tracer)))
		_, attempt := Begin(t.Context(), n.Parent.Client, zkrecipes.AcquireStart{})
		h, err := FromTurn(t.Context(), Turn{Node: n, Token: 1}, attempt)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		for range 2 {
			require.NoError(t, h.Release(t.Context()))
		}
		synctest.Wait() // the watch on the node reports the deletion
		require.Len(t, told, 1)
		require.Nil(t, told[0].Lost)
		require.Equal(t, time.Minute, told[0].Held)
		require.Equal(t, h.Path(), told[0].Path)
	})
}

// TestLapse_EndsAllHoldsOfTheGrant: one hold checks the clock before the session does. The node is removed, so the
// other holds on it end with the same deadline. The loss is logged once, and reported to the tracer once.
func TestLapse_EndsAllHoldsOfTheGrant(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		log := new(bubble.Buffer)
		var told []zkrecipes.HoldEnd
		tracer := &zkrecipes.Tracer{HoldEnd: func(_ context.Context, end zkrecipes.HoldEnd) { told = append(told, end) }}
		n := contender(t, bubble.Dial(t, srv, "a",
			conn.WithLogger(slog.New(slog.NewTextHandler(log, nil))), conn.WithTracer(tracer)))
		_, attempt := Begin(t.Context(), n.Parent.Client, zkrecipes.AcquireStart{})
		outer, err := FromTurn(t.Context(), Turn{Node: n, Token: 1}, attempt)
		require.NoError(t, err)
		inner, ok := Again(outer.Context(), n.Parent, kind)
		require.True(t, ok)
		backingOf(outer.Context()).grant.stopLoss() // as if it had not been called yet
		deadline := inner.ValidUntil()
		srv.Stall(zktest.Label("a"), zktest.Both)
		time.Sleep(time.Until(deadline) + 100*time.Millisecond)
		require.ErrorIs(t, inner.Err(), zkrecipes.ErrLost)
		var why *zkrecipes.LostError
		require.ErrorAs(t, outer.Release(t.Context()), &why)
		require.Equal(t, zkrecipes.LossDeadline, why.Reason)
		require.Equal(t, deadline, why.At)
		require.Equal(t, outer.Path(), why.Path)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "hold lost"))
		require.Len(t, told, 1)
		require.Equal(t, zkrecipes.LossDeadline, told[0].Lost.Reason)
		require.Equal(t, deadline, told[0].Lost.At)
		require.Equal(t, deadline.Sub(outer.Since()), told[0].Held)
	})
}

// TestGone_AfterTheDeadline: a process that was frozen learns of the deletion before it checks its deadline. The hold
// ended at the deadline, and reports that: nobody deleted the node of a live holder.
func TestGone_AfterTheDeadline(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		_, h, g := give(t, bubble.Dial(t, srv, "a"))
		g.stopLoss() // as if it had not been called yet
		deadline, done := h.ValidUntil(), h.Done()
		srv.Stall(zktest.Label("a"), zktest.Both)
		time.Sleep(time.Until(deadline))
		require.NoError(t, srv.Delete(h.Path()))
		srv.Heal(zktest.Label("a"))
		<-done
		var why *zkrecipes.LostError
		require.ErrorAs(t, h.Err(), &why)
		require.Equal(t, zkrecipes.LossDeadline, why.Reason)
		require.Equal(t, deadline, why.At)
	})
}

// TestFromTurn_SeveralNodes_OneDeletedBeforeTheProof: the nodes count only together. The check follows a sync, and
// leaves no watch if it finds the node gone.
func TestFromTurn_SeveralNodes_OneDeletedBeforeTheProof(t *testing.T) {
	for which := range 2 {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			one := contender(t, bubble.Dial(t, srv, "a"))
			n, err := one.Parent.Create(t.Context(), one.Session, ephemeral.Spec{Kind: "lease-", Count: 2}, nil)
			require.NoError(t, err)
			since := n.Session.NextConnection()
			srv.Cut(zktest.Label("a"))
			time.Sleep(time.Second)
			require.NoError(t, srv.Delete(n.Paths[which]))
			syncs := srv.Intercept(zktest.Match{Op: zktest.OpSync, Path: n.Paths[0], Times: -1}, zktest.Proceed())
			_, err = FromTurn(t.Context(), Turn{Node: n, Token: 1, NextConnection: since}, nil)
			require.ErrorIs(t, err, ephemeral.ErrGone)
			require.Equal(t, 1, syncs.Hits())
			synctest.Wait()
			require.Equal(t, which, len(srv.Watchers(n.Paths[0])))
		})
	}
}

// TestOver_FirstAskedAfterTheEnd: the goroutine that watches the node was reading it when the grant ended.
func TestOver_FirstAskedAfterTheEnd(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		g := &Grant{Node: contender(t, bubble.Dial(t, srv, "a"))}
		g.Node.Session.BeginRetention() // as FromTurn does
		g.detach()
		select {
		case <-g.unwatched():
		default:
			t.Error("not over")
		}
	})
}

// TestRequireClient_HoldMadeForATest: it has no client, and its context may descend from a hold that has another one.
func TestRequireClient_HoldMadeForATest(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		_, outer, _ := give(t, bubble.Dial(t, srv, "a"))
		other := (*client.Client)(bubble.Dial(t, srv, "b"))
		require.ErrorContains(t, RequireClient(outer, other), "the hold "+outer.Path())
		for _, parent := range []context.Context{t.Context(), outer.Context()} {
			h, _ := zkrecipes.NewHold(parent, proven{time.Now().Add(time.Minute)})
			require.NoError(t, RequireClient(h, other))
		}
	})
}

// TestEnd_FirstReasonStays: what comes second changes neither a loss nor a release.
func TestEnd_FirstReasonStays(t *testing.T) {
	first, second := &zkrecipes.LostError{Reason: zkrecipes.LossExpired}, &zkrecipes.LostError{}
	var g Grant
	g.end(first)
	g.end(second)
	require.Same(t, first, g.lost)
	released := Grant{ended: true}
	released.end(second)
	require.Nil(t, released.lost)
}

// TestTxn_NodeIsGone_NamesIt: the event has not arrived.
func TestTxn_NodeIsGone_NamesIt(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		_, h, _ := give(t, bubble.Dial(t, srv, "a"))
		synctest.Wait() // the watch is set
		srv.LoseWatch(zktest.Label("a"), h.Path())
		require.NoError(t, srv.Delete(h.Path()))
		_, err := h.Txn(t.Context(), zkrecipes.OpCheck("/app", -1))
		require.ErrorIs(t, err, zkrecipes.ErrFenced)
		var lost *zkrecipes.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, zkrecipes.LossNodeDeleted, lost.Reason)
		require.Equal(t, h.Path(), lost.Path)
	})
}

// TestEndHolds_SecondLossIsFaster: the holds report the reason that came first.
func TestEndHolds_SecondLossIsFaster(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		_, h, g := give(t, bubble.Dial(t, srv, "a"))
		g.end(&zkrecipes.LostError{Reason: zkrecipes.LossExpired}) // the first has not ended the holds yet
		g.lose(&zkrecipes.LostError{Reason: zkrecipes.LossDeadline})
		var lost *zkrecipes.LostError
		require.ErrorAs(t, h.Err(), &lost)
		require.Equal(t, zkrecipes.LossExpired, lost.Reason)
		require.Equal(t, h.Err(), backingOf(h.Context()).loseDeleted(), "and so does a check that finds the node gone")
	})
}
