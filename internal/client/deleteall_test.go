package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestDeleteAll(t *testing.T) {
	for name, opts := range map[string][]conn.DeleteAllOption{"all": nil, "top kept": {conn.WithKeepTop()}} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			c := trial.Dial(t, srv)
			require.NoError(t, c.DeleteAll(t.Context(), "/a", opts...), "nothing is there")
			trial.Grow(t, srv, "/a", "/a/b", "/a/b/c", "/a/d", "/ab")
			_, err := trial.Dial(t, srv).Create(t.Context(), "/a/b/mine", nil, conn.Ephemeral)
			require.NoError(t, err)
			require.NoError(t, c.DeleteAll(t.Context(), "/a", opts...))
			require.Equal(t, opts != nil, srv.Exists("/a"), name)
			require.Empty(t, srv.Children("/a"), name)
			require.True(t, srv.Exists("/ab"), name)
		})
	}
}

func TestDeleteAll_OfARoot(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Grow(t, srv, "/app", "/app/a", "/app/a/b")
		c := trial.Dial(t, srv)
		sent := srv.Intercept(zktest.Match{From: trial.Ours, Times: -1}, zktest.Proceed())
		for _, path := range []string{"/", "/zookeeper"} {
			for _, opts := range [][]conn.DeleteAllOption{nil, {conn.WithKeepTop()}} {
				require.ErrorContains(t, c.DeleteAll(t.Context(), path, opts...), "keep their own nodes")
			}
		}
		require.ErrorContains(t, c.DeleteAll(t.Context(), "/app", nil), "option 0 is nil")
		require.ErrorContains(t, c.DeleteAll(t.Context(), "app"), "relative")
		require.Zero(t, sent.Hits())
		sub, err := c.Sub("/app")
		require.NoError(t, err)
		require.NoError(t, sub.DeleteAll(t.Context(), "/", conn.WithKeepTop()))
		require.Empty(t, srv.Children("/app"))
		require.NoError(t, sub.DeleteAll(t.Context(), "/"))
		require.False(t, srv.Exists("/app"))
	})
}

// TestDeleteAll_ServerLags: a server that lags behind does not know the nodes yet. If the top was kept, they used to
// stay.
func TestDeleteAll_ServerLags(t *testing.T) {
	for name, opts := range map[string][]conn.DeleteAllOption{"all": nil, "top kept": {conn.WithKeepTop()}} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			trial.Grow(t, srv, "/a")
			lagging := srv.Fronts()[2]
			c := trial.DialTo(t, lagging.Addr(), conn.WithDialer(srv.DialAs(trial.Label)))
			lagging.Lag()
			trial.Grow(t, srv, "/a/b", "/a/b/c")
			time.AfterFunc(time.Second, lagging.CatchUp)
			require.NoError(t, c.DeleteAll(t.Context(), "/a", opts...))
			require.Empty(t, srv.Children("/a"), name)
		}, zktest.WithFronts(3))
	}
}

// A leader that has been replaced still answers syncs and lists, but may not know the nodes. With the top kept,
// DeleteAll used to report success then, with the nodes still there.
func TestDeleteAll_TopKept_AsksAQuorum(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Grow(t, srv, "/a")
		c := trial.Dial(t, srv)
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.DelayUntil(t.Context().Done()))
		require.ErrorIs(t, c.DeleteAll(trial.Within(t, time.Second), "/a", conn.WithKeepTop()), trial.ErrTooLong)
	})
}

// TestDeleteAll_RequestsInFlight: never more than documented, and as many as that.
func TestDeleteAll_RequestsInFlight(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		const branches, leaves = 100, 10
		trial.Grow(t, srv, "/a")
		for i := range branches {
			branch := fmt.Sprint("/a/", i)
			trial.Grow(t, srv, branch)
			for j := range leaves {
				trial.Grow(t, srv, fmt.Sprint(branch, "/", j))
			}
		}
		c := trial.Dial(t, srv)
		srv.SetLatency(time.Second)
		sent := srv.Intercept(zktest.Match{From: trial.Ours, Where: func(r zktest.Request) bool {
			return r.Op == zktest.OpDelete || r.Op == zktest.OpGetChildren2
		}, Times: -1}, zktest.Proceed())
		begin := time.Now()
		require.NoError(t, c.DeleteAll(t.Context(), "/a"))
		require.Equal(t, branches*leaves+3*branches+3, sent.Hits(), "one for a leaf, three for any other node")
		roundTrips := func(requests int) int { return (requests + session.MostInFlight - 1) / session.MostInFlight }
		require.Equal(t, 3+3*roundTrips(branches)+roundTrips(branches*leaves), int(time.Since(begin)/time.Second))
	})
}

// TestDeleteAll_LostReplies: every delete loses its reply once, whatever happened to the request, and possibly together
// with its session.
func TestDeleteAll_LostReplies(t *testing.T) {
	for name, action := range map[string]zktest.Action{"request": zktest.DropRequest(), "reply": zktest.DropReply()} {
		for _, expires := range []bool{false, true} {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				trial.Grow(t, srv, "/a", "/a/b", "/a/b/c", "/a/d")
				c := trial.Dial(t, srv)
				for _, path := range []string{"/a", "/a/b", "/a/b/c", "/a/d"} {
					for skip := range 2 {
						srv.Intercept(zktest.Match{Op: zktest.OpDelete, Path: "^" + path + "$", Skip: skip}, action)
					}
				}
				if expires {
					srv.Intercept(zktest.Match{Op: zktest.OpDelete, Path: "^/a/b/c$"}, zktest.After(func(r zktest.Request) {
						srv.Expire(r.Session)
						srv.Cut(trial.Ours)
					}))
				}
				require.NoError(t, c.DeleteAll(t.Context(), "/a"), name)
				require.False(t, srv.Exists("/a"), name)
			})
		}
	}
}

// TestDeleteAll_WhatAppearsMeanwhile: new nodes are deleted too, and the top is only gone once it was empty.
func TestDeleteAll_WhatAppearsMeanwhile(t *testing.T) {
	for name, opts := range map[string][]conn.DeleteAllOption{"all": nil, "top kept": {conn.WithKeepTop()}} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			trial.Grow(t, srv, "/a", "/a/b", "/a/b/c")
			c := trial.Dial(t, srv)
			made := 0
			srv.Intercept(zktest.Match{Op: zktest.OpDelete, Path: "^/a/b/c", Times: 5}, zktest.After(func(zktest.Request) {
				made++
				trial.Grow(t, srv, fmt.Sprint("/a/b/c", made), fmt.Sprint("/a/d", made))
			}))
			require.NoError(t, c.DeleteAll(t.Context(), "/a", opts...), name)
			require.Equal(t, 5, made, name)
			require.Empty(t, srv.Children("/a"), name)
			require.Equal(t, opts != nil, srv.Exists("/a"), name)
		})
	}
}

// TestDeleteAll_NeverEmpty: another client is as fast. The call ends with its context, and does not spin until then.
func TestDeleteAll_NeverEmpty(t *testing.T) {
	for name, opts := range map[string][]conn.DeleteAllOption{"all": nil, "top kept": {conn.WithKeepTop()}} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			trial.Grow(t, srv, "/a", "/a/b")
			c := trial.Dial(t, srv)
			deletes := srv.Intercept(zktest.Match{Op: zktest.OpDelete, Path: "^/a/b$", Times: -1},
				zktest.After(func(zktest.Request) {
					trial.Grow(t, srv, "/a/b")
				}))
			require.ErrorIs(t, c.DeleteAll(trial.Within(t, time.Second), "/a", opts...), trial.ErrTooLong, name)
			require.InDelta(t, time.Second/session.RetryPause, deletes.Hits(), 3, name)
		})
	}
}

// TestDeleteAll_Cancelled: nothing more is sent, and the error states what may still happen.
func TestDeleteAll_Cancelled(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Grow(t, srv, "/a", "/a/b", "/a/b/c", "/a/d")
		c := trial.Dial(t, srv)
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("enough")
		srv.Intercept(zktest.Match{Op: zktest.OpDelete, Path: "^/a/b/c$"}, zktest.Before(func(zktest.Request) {
			cancel(stop)
			synctest.Wait() // the call has returned
		}))
		err := c.DeleteAll(ctx, "/a")
		require.ErrorIs(t, err, stop)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.ErrorContains(t, err, "/a/b/c")
		sent := srv.Intercept(zktest.Match{Op: zktest.OpDelete, From: trial.Ours, Times: -1}, zktest.Proceed())
		time.Sleep(time.Minute)
		require.Zero(t, sent.Hits())
		require.Equal(t, []string{"b"}, srv.Children("/a"))
		require.Empty(t, srv.Children("/a/b"))
	})
}

// TestDeleteAll_NotAllowed: the error names the node, and the rest stays.
func TestDeleteAll_NotAllowed(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpDelete, zktest.OpGetChildren2} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			trial.Grow(t, srv, "/a", "/a/b", "/a/b/c", "/a/d")
			srv.Intercept(zktest.Match{Op: op, Path: "^/a/b$", Skip: map[zktest.Op]int{zktest.OpDelete: 1}[op], Times: -1},
				zktest.Fail(zktest.CodeNoAuth))
			err := trial.Dial(t, srv).DeleteAll(trial.Within(t, time.Minute), "/a")
			require.ErrorIs(t, err, zk.ErrNoAuth)
			require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
			require.ErrorContains(t, err, " /a/b: ")
			require.True(t, srv.Exists("/a/b"))
		})
	}
}

// TestDeleteAll_Containers: the server may reap what is being deleted, and reaps what was above it.
func TestDeleteAll_Containers(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		for _, path := range []string{"/app", "/app/a", "/app/a/b"} {
			_, err := srv.Create(path, nil, zktest.Container)
			require.NoError(t, err)
		}
		trial.Grow(t, srv, "/app/a/b/c")
		srv.Intercept(zktest.Match{Op: zktest.OpDelete, Path: "^/app/a$", Skip: 1},
			zktest.Before(func(zktest.Request) { srv.Reap() }))
		srv.Intercept(zktest.Match{Op: zktest.OpDelete, Path: "^/app/a/b$", Skip: 1},
			zktest.Before(func(zktest.Request) { srv.Reap() }))
		require.NoError(t, trial.Dial(t, srv).DeleteAll(t.Context(), "/app/a"))
		require.False(t, srv.Exists("/app/a"))
		time.Sleep(2 * time.Minute)
		require.False(t, srv.Exists("/app"))
	})
}

// TestDeleteAll_DeepAndWide: a tree of many levels, and a list that is longer than a request may be.
func TestDeleteAll_DeepAndWide(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Grow(t, srv, "/deep", "/wide")
		path := "/deep"
		for range 500 {
			path += "/x"
			trial.Grow(t, srv, path)
		}
		long := strings.Repeat("x", 1000)
		for i := range 1200 {
			trial.Grow(t, srv, fmt.Sprint("/wide/", long, i))
		}
		err := trial.Dial(t, srv, conn.WithMaxReplySize(1<<20)).DeleteAll(t.Context(), "/wide")
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.ErrorContains(t, err, "/wide")
		c := trial.Dial(t, srv)
		require.NoError(t, c.DeleteAll(t.Context(), "/wide"))
		require.NoError(t, c.DeleteAll(t.Context(), "/deep"))
		require.Equal(t, []string{"zookeeper"}, srv.Children("/"))
	})
}
