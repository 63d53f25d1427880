package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestCreateAll_MakesParentsAsContainers(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.DialTo(t, srv.Addr()+"/root", conn.WithDialer(srv.DialAs(trial.Label)))
		app, err := c.Sub("/app")
		require.NoError(t, err)
		require.NoError(t, app.CreateAll(t.Context(), "/a/b", []byte("1"), zk.WorldACL(zk.PermRead)...))
		for _, path := range []string{"/root", "/root/app", "/root/app/a"} {
			n, exists := srv.Node(path)
			require.True(t, exists && n.Container, path)
			require.EqualValues(t, zk.PermAll, n.ACL[0].Perms, path)
		}
		n, _ := srv.Node("/root/app/a/b")
		require.Equal(t, "1", string(n.Data))
		require.False(t, n.Container)
		require.EqualValues(t, zk.PermRead, n.ACL[0].Perms)

		err = app.CreateAll(t.Context(), "/a/b", []byte("1"))
		require.ErrorIs(t, err, zk.ErrNodeExists)
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.ErrorContains(t, err, "create /a/b: ")

		// The root of a client is a node of the server like any other.
		other, err := c.Sub("/other/deep")
		require.NoError(t, err)
		require.NoError(t, other.CreateAll(t.Context(), "/", []byte("2")))
		n, _ = srv.Node("/root/other/deep")
		require.Equal(t, "2", string(n.Data))
	})
}

func TestCreateAll_Refused(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		_, err := c.Create(t.Context(), "/closed", nil, 0, zk.WorldACL(zk.PermRead)...)
		require.NoError(t, err)
		err = c.CreateAll(t.Context(), "/closed/a/b", nil)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.ErrorContains(t, err, "/closed/a: ", "the node that could not be made")
		_, err = c.Create(t.Context(), "/brief", nil, zk.FlagEphemeral)
		require.NoError(t, err)
		require.ErrorIs(t, c.CreateAll(t.Context(), "/brief/a", nil), zk.ErrNoChildrenForEphemerals)
		require.ErrorIs(t, c.CreateAll(t.Context(), "/", nil), zk.ErrNodeExists)

		sent := srv.Intercept(zktest.Match{From: trial.Ours, Times: -1}, zktest.Proceed())
		require.ErrorContains(t, c.CreateAll(t.Context(), "a", nil), "relative")
		require.ErrorContains(t, c.CreateAll(t.Context(), "/big", make([]byte, 1<<20)), "too large")
		require.Zero(t, sent.Hits())
	})
}

// TestCreateAll_EveryRequestLost: the request or the reply is lost, or the session ends with it, at each step. Nothing
// else happens below the parents, so the outcome is known: in the end there is one node, created once.
func TestCreateAll_EveryRequestLost(t *testing.T) {
	faults := map[string]zktest.Action{
		"request lost": zktest.DropRequest(), "reply lost": zktest.DropReply(),
		"throttled":  zktest.Fail(zktest.CodeThrottled),
		"no outcome": zktest.Fail(-7),
	}
	for name, fault := range faults {
		for step := range 12 {
			for _, expires := range []bool{false, true} {
				trial.Run(t, func(t *testing.T, srv *zktest.Server) {
					c := trial.Dial(t, srv)
					srv.Intercept(zktest.Match{From: trial.Ours, Skip: step}, fault)
					if expires {
						srv.Intercept(zktest.Match{From: trial.Ours, Op: zktest.OpConnect},
							zktest.Before(func(r zktest.Request) { srv.Expire(r.Session) }))
					}
					require.NoError(t, c.CreateAll(trial.Within(t, time.Hour), "/a/b/c", []byte("1")), "%s, step %d, expires %v", name,
						step, expires)
					n, _ := srv.Node("/a/b/c")
					require.Equal(t, "1", string(n.Data))
					require.Zero(t, n.Stat.Version)
					n, _ = srv.Node("/a/b")
					require.True(t, n.Container)
				})
			}
		}
	}
}

// TestCreateAll_ReplyLost_AnotherClientMeddles: it does so before the check of what became of the create.
func TestCreateAll_ReplyLost_AnotherClientMeddles(t *testing.T) {
	const path = "/a/b"
	tests := []struct {
		name   string
		fault  zktest.Action
		meddle func(*zktest.Server) error
		want   string // text of the error; empty for none
	}{
		{
			"same data", zktest.DropRequest(),
			func(srv *zktest.Server) error { _, err := srv.Create(path, []byte("1"), 0); return err }, "",
		},
		{
			"different data", zktest.DropRequest(),
			func(srv *zktest.Server) error { _, err := srv.Create(path, []byte("2"), 0); return err },
			"the node exists with different data",
		},
		{
			"changed", zktest.DropReply(), func(srv *zktest.Server) error { return srv.Set(path, []byte("2")) },
			"the node exists with different data",
		},
		{"deleted", zktest.DropReply(), func(srv *zktest.Server) error { return srv.Delete(path) }, "deleted since"},
		{"deleted with its parent", zktest.DropReply(), func(srv *zktest.Server) error {
			return errors.Join(srv.Delete(path), srv.Delete("/a"))
		}, "deleted since"},
		{"made and deleted", zktest.DropRequest(), func(srv *zktest.Server) error {
			_, err := srv.Create(path, []byte("1"), 0)
			return errors.Join(err, srv.Delete(path))
		}, "deleted since"},
		{"elsewhere", zktest.DropRequest(), func(srv *zktest.Server) error {
			_, err := srv.Create("/b", nil, 0)
			return err
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := trial.Dial(t, srv)
				trial.Create(t, srv, "/a", "")
				require.NoError(t, c.Sync(t.Context(), "/")) // so that it knows how far the servers are
				srv.Intercept(zktest.Match{From: trial.Ours, Op: zktest.OpCreate}, tt.fault)
				srv.Intercept(zktest.Match{Op: zktest.OpConnect},
					zktest.Before(func(zktest.Request) { require.NoError(t, tt.meddle(srv)) }))
				err := c.CreateAll(t.Context(), path, []byte("1"))
				if tt.want != "" {
					require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
					require.ErrorContains(t, err, tt.want)
					return
				}
				require.NoError(t, err)
				n, _ := srv.Node(path)
				require.Equal(t, "1", string(n.Data))
			})
		})
	}
}

// TestCreateAll_LateCreate: the create whose reply is lost is applied after the check, and makes the second one fail.
func TestCreateAll_LateCreate(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		srv.Intercept(zktest.Match{From: trial.Ours, Op: zktest.OpCreate}, zktest.DropRequest())
		late := srv.Intercept(zktest.Match{From: trial.Ours, Op: zktest.OpCreate}, zktest.Before(func(zktest.Request) {
			_, err := srv.Create("/a", []byte("1"), zktest.Persistent)
			require.NoError(t, err)
		}))
		require.NoError(t, c.CreateAll(t.Context(), "/a", []byte("1")))
		require.Equal(t, 1, late.Hits())
	})
}

// TestCreateAll_SessionLostUnheard: the session ends here while the servers still keep it. A create of it may arrive at
// any time, so none is sent again.
func TestCreateAll_SessionLostUnheard(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		trial.Create(t, srv, "/a", "")
		s := trial.Live(t, c)
		require.NoError(t, s.Sync(t.Context(), "/"))
		srv.Refuse(trial.Ours)
		srv.Intercept(zktest.Match{From: trial.Ours, Op: zktest.OpCreate}, zktest.DropRequest())
		done := make(chan error)
		go func() { done <- c.CreateAll(t.Context(), "/a/b", nil) }()
		<-s.Done()
		srv.Accept(trial.Ours)
		err := <-done
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.False(t, srv.Exists("/a/b"))
	})
}

func TestCreateAll_ParentReapedInBetween(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		reaped := srv.Intercept(zktest.Match{From: trial.Ours, Op: zktest.OpCreate, Skip: 1, Times: 3},
			zktest.Before(func(zktest.Request) {
				require.NoError(t, srv.Delete("/a"))
			}))
		require.NoError(t, c.CreateAll(t.Context(), "/a/b", nil))
		require.Equal(t, 3, reaped.Hits())
		require.True(t, srv.Exists("/a/b"))
	})
}

func TestCreateAll_EndsWithItsContextAndWithTheClient(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		srv.Intercept(zktest.Match{From: trial.Ours, Op: zktest.OpCreate, Times: -1}, zktest.Ignore())
		err := c.CreateAll(trial.Within(t, time.Second), "/a", nil)
		require.ErrorIs(t, err, trial.ErrTooLong)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)

		trial.CutOff(srv, trial.Ours)
		synctest.Wait()
		err = c.CreateAll(trial.Within(t, time.Second), "/a", nil)
		require.ErrorIs(t, err, trial.ErrTooLong)
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome, "nothing was sent")

		done := make(chan error)
		go func() { done <- c.CreateAll(context.WithoutCancel(t.Context()), "/a", nil) }()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-done, zkrecipes.ErrClosed)
	})
}

// The node does not exist, and its parent does not reveal whether it ever did.
func TestCreateAll_RequestLostAndTheParentCannotBeRead_IsUnknown(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.DropRequest())
		srv.Intercept(zktest.Match{Op: zktest.OpExists, Times: -1}, zktest.Fail(zktest.CodeInvalidACL))
		err := c.CreateAll(trial.Within(t, time.Minute), "/a", nil)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.ErrorContains(t, err, zk.ErrInvalidACL.Error())
	})
}

// The session ends while the parents are created, and so does the caller's context.
func TestCreateAll_EndsWithItsContextAsTheSessionEnds_MatchesTheContext(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		_, ok := s.OnLoss(false, func(*zkrecipes.LostError) func() { cancel(); return nil })
		require.True(t, ok)
		srv.Intercept(zktest.Match{From: trial.Ours, Op: zktest.OpCreateContainer}, zktest.Fail(zktest.CodeSessionExpired))
		err := c.CreateAll(ctx, "/a/b", nil)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
	})
}

// A server that answers "no node" to everything gets its requests with growing pauses. Parents that are missing, or
// reaped once, cost none.
func TestCreateAll_ServerKnowsNoNode_IsPaced(t *testing.T) {
	for name, create := range map[string]func(ctx context.Context, c *client.Client, s *session.Session) error{
		"client": func(ctx context.Context, c *client.Client, _ *session.Session) error {
			return c.CreateAll(ctx, "/a/b", nil)
		},
		"session": func(ctx context.Context, _ *client.Client, s *session.Session) error {
			return s.Ensure(ctx, "/a/b", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := trial.Dial(t, srv)
				s := trial.Live(t, c)
				all := srv.Intercept(zktest.Match{Times: -1}, zktest.Fail(zktest.CodeNoNode))
				err := create(trial.Within(t, time.Minute), trial.Inner(c), s)
				require.ErrorIs(t, err, trial.ErrTooLong)
				require.NotErrorIs(t, err, zk.ErrNoNode, "it is no answer to this call")
				require.ErrorContains(t, err, "(create /a/b: zk: node does not exist)")
				require.Less(t, all.Hits(), 300)
				require.Greater(t, all.Hits(), 100, "and it goes on")
				all.Remove()
				time.Sleep(time.Second) // a minute after its start, the server looks for empty containers
				require.Zero(t, trial.After(func() { require.NoError(t, create(t.Context(), trial.Inner(c), s)) }),
					"the parent is missing")
				require.NoError(t, srv.Delete("/a/b"))
				reap := func(zktest.Request) { require.NoError(t, srv.Delete("/a")) }
				require.NoError(t, srv.Delete("/a"))
				once := srv.Intercept(zktest.Match{
					Op: zktest.OpCreate, Path: "^/a/b$",
					Where: func(zktest.Request) bool { return srv.Exists("/a") },
				}, zktest.Before(reap))
				require.Zero(t, trial.After(func() { require.NoError(t, create(t.Context(), trial.Inner(c), s)) }),
					"it is reaped once")
				require.Equal(t, 1, once.Hits())
			})
		})
	}
}

// TestMakeContainers_Requests: one request if only the direct parent is missing, whatever is above it.
func TestMakeContainers_Requests(t *testing.T) {
	for there, want := range map[string]int{"/a/b/c/d": 1, "/a/b/c": 1, "/a/b": 3, "/a": 5, "": 7} {
		t.Run(there, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := trial.Dial(t, srv)
				if there != "" {
					require.NoError(t, c.CreateAll(t.Context(), there, nil))
				}
				sent := srv.Intercept(zktest.Match{From: trial.Ours, Times: -1}, zktest.Proceed())
				require.NoError(t, trial.Live(t, c).MakeContainers(t.Context(), "/a/b/c/d"))
				require.Equal(t, want, sent.Hits())
				n, exists := srv.Node("/a/b/c/d")
				require.True(t, exists)
				require.Equal(t, there != "/a/b/c/d", n.Container)
			})
		})
	}
}

// Another client has created the parent in the meantime, where this one may create nothing.
func TestMakeContainers_MadeByAnotherWhereThisClientMayNot(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		_, err := c.Create(t.Context(), "/closed", nil, 0, zk.WorldACL(zk.PermRead)...)
		require.NoError(t, err)
		s := trial.Live(t, c)
		require.ErrorIs(t, s.MakeContainers(t.Context(), "/closed/a"), zk.ErrNoAuth)
		trial.Create(t, srv, "/closed/a", "")
		require.NoError(t, s.MakeContainers(t.Context(), "/closed/a"))
		require.NoError(t, s.MakeContainers(t.Context(), "/closed/a/b"))
		require.True(t, srv.Exists("/closed/a/b"))
	})
}

// Errors and tracers name the nodes that the library creates, removes or stops watching on its own as the client does.
// Only the chroot and the nodes above it have the path of the server.
func TestMakeContainers_PathsInErrorsAndTraces(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		seen := &trial.Log[string]{}
		c := trial.DialTo(t, srv.Addr()+"/root/app", conn.WithDialer(srv.Dial),
			conn.WithTracer(&zkrecipes.Tracer{Request: func(_ context.Context, r zkrecipes.Request) {
				seen.Add(r.Op + " " + r.Path)
			}}))
		next := func() []string {
			synctest.Wait()
			all := seen.Values()
			seen.Mu.Lock()
			defer seen.Mu.Unlock()
			seen.Entries = nil
			return all
		}
		ctx, s := t.Context(), trial.Live(t, c)
		require.NoError(t, s.MakeContainers(ctx, "/a/b"))
		require.Equal(t, []string{
			"create /a/b", "create /a", "create /root/app", "create /root", "create /root/app", "create /a", "create /a/b",
		}, next())

		made, err := s.TryContainers(ctx, "/c")
		require.NoError(t, err)
		require.NoError(t, s.RemoveUnused(ctx, made))
		require.Equal(t, []string{"create /c", "multi /", "exists /c", "delete /c"}, next())

		for _, path := range []string{"/", "/a"} {
			_, _, w, err := s.GetW(ctx, path)
			require.NoError(t, err)
			s.Unwatch(w)
			require.Equal(t, []string{"get " + path, "unwatch " + path}, next())
		}

		_, err = c.Create(ctx, "/closed", nil, 0, zk.WorldACL(zk.PermRead)...)
		require.NoError(t, err)
		require.EqualError(t, c.CreateAll(ctx, "/closed/x/y", nil),
			"create /closed/x: not authorized: the ACL of /closed does not grant create: see WithAuth, WithACL")
		next()

		_, err = s.TryContainers(ctx, "/d")
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Equal(t, []string{"create /d", "exists /d", "delete /d", "close /"}, next())
	})
}
