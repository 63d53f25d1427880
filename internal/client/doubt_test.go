package client_test

import (
	"cmp"
	"context"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// writes are the writes that check whether they were applied, with the request of each.
var writes = map[zktest.Op]func(ctx context.Context, c *conn.Client) error{
	zktest.OpSetData: func(ctx context.Context, c *conn.Client) error {
		_, err := c.Set(ctx, "/set", []byte("x"), 0)
		return err
	},
	zktest.OpSetACL: func(ctx context.Context, c *conn.Client) error {
		_, err := c.SetACL(ctx, "/setacl", zk.WorldACL(zk.PermRead), 0)
		return err
	},
	zktest.OpDelete: func(ctx context.Context, c *conn.Client) error { return c.Delete(ctx, "/delete", 0) },
	zktest.OpCreate: func(ctx context.Context, c *conn.Client) error { return c.CreateAll(ctx, "/create", []byte("x")) },
}

// The reply is lost, and the check afterwards fails. The outcome is then unknown: it must be taken neither for success
// nor for a refusal, even though the error quotes the answer to the check.
func TestWrites_ReplyLostAndTheLookFails_AreUnknown(t *testing.T) {
	for op, write := range writes {
		for _, looks := range [][]zktest.Op{{zktest.OpMulti}, {zktest.OpExists, zktest.OpGetData}} {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				trial.Grow(t, srv, "/set", "/setacl", "/delete")
				c := trial.Dial(t, srv)
				srv.Intercept(zktest.Match{Op: op}, zktest.DropReply())
				for _, look := range looks {
					srv.Intercept(zktest.Match{Op: look, Times: -1}, zktest.Fail(zktest.CodeInvalidACL))
				}
				err := write(trial.Within(t, time.Minute), c)
				require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome, "%v, %v fails", op, looks)
				require.NotErrorIs(t, err, zk.ErrInvalidACL, "%v, %v fails", op, looks)
				require.ErrorContains(t, err, zk.ErrInvalidACL.Error(), "%v, %v fails", op, looks)
			})
		}
	}
}

// A leader that was replaced may not know the node. It answers a sync, but no barrier, and the delete counted as a
// success.
func TestDelete_ReplyLost_AsksAQuorum(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Grow(t, srv, "/delete")
		c := trial.Dial(t, srv)
		srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.DropReply())
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.DelayUntil(t.Context().Done()))
		require.ErrorIs(t, c.Delete(trial.Within(t, time.Second), "/delete", 0), zkrecipes.ErrUnknownOutcome)
	})
}

// The reply is lost, and the write is applied only after the check, so its copy is refused, perhaps because the first
// has removed the permission. To a caller that looks for the refusal first, nothing would have been written.
func TestWrites_AppliedAfterTheCheck_AreUnknown(t *testing.T) {
	refusals := map[zktest.Op]zktest.Code{
		zktest.OpSetData: zktest.CodeBadVersion, zktest.OpSetACL: zktest.CodeBadVersion,
		zktest.OpDelete: zktest.CodeBadVersion, zktest.OpCreate: zktest.CodeNoAuth,
	}
	for op, write := range writes {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			trial.Grow(t, srv, "/set", "/setacl", "/delete")
			c := trial.Dial(t, srv)
			srv.Intercept(zktest.Match{Op: op}, zktest.DropRequest())
			srv.Intercept(zktest.Match{Op: op}, zktest.Fail(refusals[op]))
			err := write(trial.Within(t, time.Minute), c)
			require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome, "%v", op)
			require.ErrorContains(t, err, "; then: ", "%v", op)
			require.NotErrorIs(t, err, zk.ErrBadVersion, "%v", op)
			require.NotErrorIs(t, err, zk.ErrNoAuth, "%v", op)
		})
	}
}

// The session ends while the calls wait for a connection, so nothing was written in it.
func TestWrites_SessionEndsBeforeTheyBegin_AreDoneInTheNext(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Grow(t, srv, "/set", "/setacl", "/delete")
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		trial.CutOff(srv, trial.Ours)
		synctest.Wait() // the client has noticed
		errs := make(chan error, len(writes))
		for _, write := range writes {
			go func() { errs <- write(t.Context(), c) }()
		}
		<-s.Done()
		srv.Accept(trial.Ours)
		for range writes {
			require.NoError(t, <-errs)
		}
	})
}

// A server may answer at once that a write has timed out. Writes used to be repeated every 10 ms then.
func TestWrites_ServerTimesThemOut_PausesGrow(t *testing.T) {
	all := maps.Clone(writes)
	all[zktest.OpCreateContainer] = func(ctx context.Context, c *conn.Client) error {
		return c.CreateAll(ctx, "/a/b", nil)
	}
	all[0] = func(ctx context.Context, c *conn.Client) error { return c.DeleteAll(ctx, "/delete") }
	for op, write := range all {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			trial.Grow(t, srv, "/set", "/setacl", "/delete")
			c := trial.Dial(t, srv)
			require.NoError(t, c.Sync(t.Context(), "/"), "it knows a transaction")
			late := srv.Intercept(zktest.Match{Op: cmp.Or(op, zktest.OpDelete), Times: -1},
				zktest.Fail(zktest.CodeOperationTimeout))
			time.AfterFunc(time.Minute, late.Remove)
			require.NoError(t, write(t.Context(), c), op)
			require.Less(t, late.Hits(), 90, op)
			require.Greater(t, late.Hits(), 30, op)
		})
	}
}

// The server fails at each try, perhaps while producing the reply. Writing again would not help.
func TestCreateAll_ServerFault_IsNotRepeated(t *testing.T) {
	for op, path := range map[zktest.Op]string{zktest.OpCreate: "/a", zktest.OpCreateContainer: "/a/b"} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			fault := srv.Intercept(zktest.Match{Op: op, Times: -1}, zktest.Fail(-1))
			require.Error(t, trial.Dial(t, srv).CreateAll(trial.Within(t, time.Minute), path, nil))
			require.Equal(t, 1, fault.Hits(), "%v", op)
		})
	}
}

// The parent is gone when its child is created, like a container that the server has removed.
func TestCreateAll_HigherParentReapedInBetween(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		srv.Intercept(zktest.Match{Op: zktest.OpCreateContainer, Path: "^/a/b$", Skip: 1},
			zktest.Before(func(zktest.Request) {
				require.NoError(t, srv.Delete("/a"))
			}))
		require.NoError(t, trial.Dial(t, srv).CreateAll(trial.Within(t, trial.Timeout), "/a/b/c", nil))
	})
}

// Rejected credentials are the reason for later failures, even if no server can be reached afterwards.
func TestCredentialsRefused_ThenNoServer_IsStillTheReason(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithAuth("digest", "u:p"))
		s := trial.Live(t, c)
		srv.Intercept(zktest.Match{Op: zktest.OpAuth, Times: -1}, zktest.Fail(zktest.CodeAuthFailed))
		srv.Cut(trial.Ours)
		<-s.Done()
		srv.Refuse(trial.Ours)
		time.Sleep(time.Minute)
		require.ErrorIs(t, c.Sync(trial.Within(t, time.Second), "/"), zkrecipes.ErrAuthFailed)
	})
}

func TestGo_OnASubThatIsClosed_DoesNothing(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		sub, err := trial.Dial(t, srv).Sub("/app")
		require.NoError(t, err)
		require.NoError(t, sub.Close())
		require.False(t, trial.Inner(sub).Go(func(context.Context) { t.Error("it runs") }))
	})
}

func TestReadChildren_BadPath_IsAnErrorAndNothingIsSent(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		sent := srv.Intercept(zktest.Match{From: trial.Ours, Times: -1}, zktest.Proceed())
		told := make(chan error)
		require.True(t, s.ReadChildren("a", func() {}, func(_ []string, _ zk.Stat, err error) { told <- err }))
		require.ErrorContains(t, <-told, "relative")
		require.Zero(t, sent.Hits())
		require.Error(t, trial.Inner(trial.Dial(t, srv)).CheckCreate("a", nil, 1))
	})
}

// The first read is late, so there is nothing yet that could be outdated.
func TestFollow_FirstReadingIsLate(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "1")
		c := trial.Dial(t, srv)
		srv.Intercept(zktest.Match{Op: zktest.OpGetData}, zktest.HoldReply(trial.Timeout/4))
		f := follow(t, c, "/a")
		time.Sleep(trial.Timeout / 2)
		f.requireTold("1")
	})
}

// A caller that stops during a read no longer waits for it.
func TestFollow_CallerStopsDuringAReading(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "1")
		var stopped time.Time
		for n, err := range trial.Dial(t, srv).Watch(t.Context(), "/a") {
			require.NoError(t, err)
			if !n.Current {
				stopped = time.Now()
				break
			}
			srv.Intercept(zktest.Match{Op: zktest.OpGetData}, zktest.HoldReply(time.Hour))
			set(t, srv, "2")
		}
		require.Equal(t, time.Now(), stopped)
	})
}

// No view is yielded after the caller has stopped, even if the session ended in the meantime.
func TestFollow_CallerStopsAsTheSessionEnds(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		views := 0
		for _, err := range c.Watch(t.Context(), "/a") {
			require.NoError(t, err)
			views++
			s := trial.Live(t, c)
			srv.Expire(s.ID())
			<-s.Done()
			break
		}
		require.Equal(t, 1, views)
	})
}

// A feed receives only its own path and what is below.
func TestFeed_OtherPaths_AreNotTold(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "1")
		s := trial.Live(t, trial.Dial(t, srv))
		f, all, other := s.Follow("/a", trial.NeedsAll), s.Follow("/", trial.NeedsAll), s.Follow("/b", trial.NeedsAll)
		defer f.Stop()
		defer other.Stop()
		for _, path := range []string{"/b", "/ab", "/a", "/a/b"} {
			require.Equal(t, 1, srv.SendEvent(trial.Ours, zktest.NodeDataChanged, path))
		}
		require.Equal(t, []string{"EventNodeDataChanged /a", "EventNodeDataChanged /a/b"}, trial.NewsOf(f))
		require.Len(t, trial.NewsOf(all), 4)
		all.Stop()

		b := f.Batch()
		b.Get("/a", nil)
		b.RemoveWatches("/a", nil)
		require.True(t, b.Send())
		trial.NewsOf(f)
		require.Zero(t, trial.Watches(srv), "no other feed needs it")
	})
}

// What was read without a watch is as old as its request: a later answer does not make it newer.
func TestFreshness_WithoutAWatch_IsOfItsRequest(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		asked := time.Now()
		f := s.NewAge()
		time.Sleep(time.Second)
		require.NoError(t, s.Sync(t.Context(), "/"))
		require.Equal(t, asked, f.AsOf())
	})
}

// counted is a connection that records its end.
type counted struct {
	net.Conn
	once sync.Once
	open *atomic.Int32
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// Each connection is closed, including the one on which a new session closes the old one.
func TestClose_LeavesNoConnectionOpen(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var open, dialed atomic.Int32
		c := trial.DialTo(t, srv.Addr(),
			conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				raw, err := srv.DialAs(trial.Label)(ctx, network, address)
				if err != nil {
					return nil, err
				}
				dialed.Add(1)
				open.Add(1)
				return &counted{Conn: raw, open: &open}, nil
			}))
		s := trial.Live(t, c)
		srv.Stall(trial.Ours, zktest.Both)
		<-s.Done()
		srv.Heal(trial.Ours)
		trial.Live(t, c)
		time.Sleep(trial.Timeout)
		require.EqualValues(t, 1, open.Load())
		require.Len(t, srv.Sessions(), 1, "the old one was closed")
		require.Greater(t, dialed.Load(), int32(2))
		require.NoError(t, c.Close())
		require.Zero(t, open.Load())
	})
}
