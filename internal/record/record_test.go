package record

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const path = "/app/record"

func at(czxid int64, version int32, data string) session.Node {
	return session.Node{Exists: true, Data: []byte(data), Stat: zk.Stat{Czxid: czxid, Version: version}}
}

// TestReplacement_Fate: what a read shows of copies whose replies were lost.
func TestReplacement_Fate(t *testing.T) {
	missing := session.Node{}
	for name, tt := range map[string]struct {
		over, now  session.Node
		idempotent bool
		want       fate
	}{
		"not applied yet":                        {at(1, 4, "old"), at(1, 4, "old"), false, open},
		"not applied yet, the data are the same": {at(1, 4, "new"), at(1, 4, "new"), true, open},
		"another client wrote":                   {at(1, 4, "old"), at(1, 5, "other"), false, refused},
		"one write, with our data":               {at(1, 4, "old"), at(1, 5, "new"), false, unknown},
		"the same, which is as good":             {at(1, 4, "old"), at(1, 5, "new"), true, applied},
		"two writes, one may be ours":            {at(1, 4, "old"), at(1, 6, "other"), false, unknown},
		"made again, in the same version":        {at(1, 4, "old"), at(2, 4, "old"), false, unknown},
		"made again, with our data":              {at(1, 4, "old"), at(2, 1, "new"), true, applied},
		"deleted":                                {at(1, 4, "old"), missing, true, unknown},
		"still missing: made and deleted?":       {missing, missing, true, unknown},
		"made, by us or another":                 {missing, at(1, 1, "new"), false, unknown},
		"made, with other data":                  {missing, at(1, 1, "other"), false, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			w := write{old: tt.over, data: []byte("new"), doubt: zkrecipes.ErrUnknownOutcome}
			require.Equal(t, tt.want, Replacement{Idempotent: tt.idempotent}.fate(&w, tt.now))
		})
	}
	w := write{old: at(1, 4, "old"), doubt: zkrecipes.ErrUnknownOutcome}
	require.Equal(t, unknown, Replacement{Idempotent: true}.fate(&w, missing),
		"a missing node does not hold the empty data")
}

func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server, c *client.Client)) {
	t.Helper()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		f(t, srv, (*client.Client)(bubble.Dial(t, srv, "a")))
	})
}

// TestMarked_OnceAtEveryFault: a request or a reply is lost, at every place, once and repeatedly. Each update is
// applied once.
func TestMarked_OnceAtEveryFault(t *testing.T) {
	for name, action := range map[string]zktest.Action{
		"not applied": zktest.DropRequest(), "applied": zktest.DropReply(),
	} {
		for skip := range 8 {
			for _, times := range []int{1, 2} {
				t.Run(fmt.Sprint(name, skip, times), func(t *testing.T) {
					inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
						m := NewMarked(c, path, []byte("x"))
						srv.Intercept(zktest.Match{Skip: skip, Times: times}, action)
						for _, want := range []string{"xx", "xxx"} {
							data, err := m.Update(t.Context(), func(data []byte) ([]byte, error) { return append(data, 'x'), nil })
							require.NoError(t, err)
							require.Equal(t, want, string(data))
						}
						require.NoError(t, m.Close(t.Context()))
						require.Empty(t, srv.Children(path), "the marker")
						node, _ := srv.Node(path)
						require.Equal(t, "xxx", string(node.Data))
					})
				})
			}
		}
	}
}

// TestMarked_ErrorAboutOldData: what the last update left may be stale. An error about it counts only if the node still
// holds it.
func TestMarked_ErrorAboutOldData(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *client.Client) {
		m := NewMarked(c, path, []byte("old"))
		same := func(data []byte) ([]byte, error) { return data, nil }
		_, err := m.Update(t.Context(), same)
		require.NoError(t, err)
		_, err = c.Set(t.Context(), path, []byte("new"), -1)
		require.NoError(t, err)
		var seen []string
		bad := errors.New("bad")
		_, err = m.Update(t.Context(), func(data []byte) ([]byte, error) {
			seen = append(seen, string(data))
			return nil, bad
		})
		require.ErrorIs(t, err, bad)
		require.Equal(t, []string{"old", "new"}, seen)
	})
}

// add appends an x to what the node holds.
func add(ctx context.Context, m *Marked) error {
	_, err := m.Update(ctx, func(data []byte) ([]byte, error) { return append(data, 'x'), nil })
	return err
}

// TestMarked_EachSessionHasItsMarker: the client has lost the session, and the server has not noticed. The marker of
// that session will end with it, so it shows nothing to the next one.
func TestMarked_EachSessionHasItsMarker(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
		m := NewMarked(c, path, nil)
		require.NoError(t, add(t.Context(), m))
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		srv.Stall(zktest.Label("a"), zktest.FromServer)
		<-s.Done()
		require.Len(t, srv.Children(path), 1, "the server hears the client, and keeps the session")
		srv.Heal(zktest.Label("a"))
		require.NoError(t, add(t.Context(), m))
		now, err := c.Session(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, s.ID(), now.ID())
		require.Len(t, srv.Ephemerals(now.ID()), 1)
		srv.Expire(now.ID())
		sent := bubble.Requests(srv)
		require.NoError(t, add(t.Context(), m))
		require.Equal(t, 3, sent.Hits(), "the marker, what the node holds, and the update")
		node, _ := srv.Node(path)
		require.Equal(t, "xxx", string(node.Data))
	})
}

// TestMarked_MakingTheMarkerIsGivenUp: the next update creates another one, and none is left behind. No update has
// failed.
func TestMarked_MakingTheMarkerIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
		require.NoError(t, c.CreateAll(t.Context(), path, nil))
		m := NewMarked(c, path, nil)
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "marker$"}, zktest.HoldReply(2*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := add(ctx, m)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.NoError(t, add(t.Context(), m))
		time.Sleep(2 * time.Second)
		require.Len(t, srv.Children(path), 1)
		require.NoError(t, m.Close(t.Context()))
		require.Empty(t, srv.Children(path))
	})
}

// TestMarked_MarkerIsRefused: the update fails at once with the server's error.
func TestMarked_MarkerIsRefused(t *testing.T) {
	for _, code := range []zktest.Code{zktest.CodeNoAuth, zktest.CodeRuntimeInconsistency} {
		inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
			require.NoError(t, c.CreateAll(t.Context(), path, nil))
			refused := srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "marker$", Times: 3}, zktest.Fail(code))
			require.Error(t, add(t.Context(), NewMarked(c, path, nil)))
			require.Equal(t, 1, refused.Hits())
		})
	}
}

// TestMarked_Close_NothingToDelete: the marker is gone with its session, or goes with the client.
func TestMarked_Close_NothingToDelete(t *testing.T) {
	for name, end := range map[string]func(srv *zktest.Server, c *client.Client){
		"session ended":  func(srv *zktest.Server, _ *client.Client) { srv.Expire(srv.SessionOf("a")) },
		"client closed":  func(_ *zktest.Server, c *client.Client) { _ = c.Close() },
		"before any use": nil,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
				m := NewMarked(c, path, nil)
				if end != nil {
					require.NoError(t, add(t.Context(), m))
					end(srv, c)
					synctest.Wait()
				}
				began := time.Now()
				require.NoError(t, m.Close(t.Context()))
				require.Less(t, time.Since(began), bubble.Timeout)
				require.Empty(t, srv.Children(path))
			})
		})
	}
}

// TestMarked_Close_Refused: the error shows that it is not permitted. The removal continues, even after a fault of the
// server.
func TestMarked_Close_Refused(t *testing.T) {
	for code, is := range map[zktest.Code]error{zktest.CodeNoAuth: zk.ErrNoAuth, zktest.CodeRuntimeInconsistency: nil} {
		inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
			m := NewMarked(c, path, nil)
			require.NoError(t, add(t.Context(), m))
			srv.Intercept(zktest.Match{Op: zktest.OpDelete, Times: 3}, zktest.Fail(code))
			require.ErrorIs(t, m.Close(t.Context()), is)
			time.Sleep(time.Second)
			require.Empty(t, srv.Children(path))
		})
	}
}

// TestMarked_LargeUpdate_ServersHangUp: the update is not sent again and again. It ends at most two connections.
func TestMarked_LargeUpdate_ServersHangUp(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
		m := NewMarked(c, path, nil)
		require.NoError(t, add(t.Context(), m))
		sent := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^" + path + "$", Times: -1}, zktest.DropRequest())
		_, err := m.Update(t.Context(), func([]byte) ([]byte, error) { return make([]byte, 500_000), nil })
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.Equal(t, 2, sent.Hits())
	})
}

// TestReplacement_LargeData_ServersHangUp: likewise for a replacement.
func TestReplacement_LargeData_ServersHangUp(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
		require.NoError(t, c.CreateAll(t.Context(), path, nil))
		sent := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^" + path + "$", Times: -1}, zktest.DropRequest())
		_, err := Replacement{
			Client: c, Path: path,
			Next: func(session.Node) ([]byte, error) { return make([]byte, 500_000), nil },
		}.Do(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.Equal(t, 2, sent.Hits())
	})
}

// TestReplacement_SessionEndsBeforeItIsSent: the write continues in the next session.
func TestReplacement_SessionEndsBeforeItIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
		require.NoError(t, c.CreateAll(t.Context(), path, []byte("old")))
		first := srv.SessionOf("a")
		_, err := Replacement{Client: c, Path: path, Next: func(session.Node) ([]byte, error) {
			trial.CutOff(srv, zktest.Label("a"))
			synctest.Wait() // the client knows that, and sends nothing
			time.AfterFunc(time.Second, func() {
				srv.Expire(first)
				srv.Accept(zktest.Label("a"))
			})
			return []byte("new"), nil
		}}.Do(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, first, srv.SessionOf("a"))
		node, _ := srv.Node(path)
		require.Equal(t, "new", string(node.Data))
	})
}

// TestSessionEndsBeforeTheReply: the write was applied, and is not repeated in the next session.
func TestSessionEndsBeforeTheReply(t *testing.T) {
	for name, write := range map[string]func(c *client.Client) error{
		"replacement": func(c *client.Client) error {
			_, err := Replacement{Client: c, Path: path, Next: func(now session.Node) ([]byte, error) {
				return append(now.Data, 'x'), nil
			}}.Do(context.Background())
			return err
		},
		"marked": func(c *client.Client) error { return add(context.Background(), NewMarked(c, path, nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
				require.NoError(t, c.CreateAll(t.Context(), path, []byte("x")))
				srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^" + path + "$"}, zktest.HoldReply(time.Hour))
				time.AfterFunc(time.Second, func() { srv.Expire(srv.SessionOf("a")) })
				require.ErrorIs(t, write(c), zkrecipes.ErrUnknownOutcome)
				node, _ := srv.Node(path)
				require.Equal(t, "xx", string(node.Data))
			})
		})
	}
}

// TestReplacement_EventsAlone: the write was applied, and then the server only sends events and no longer answers. The
// client leaves it for another one, where the write is not repeated.
func TestReplacement_EventsAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
		require.NoError(t, c.CreateAll(t.Context(), path, []byte("x")))
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^" + path + "$"}, zktest.Ignore())
		written := make(chan error, 1)
		go func() {
			_, err := Replacement{Client: c, Path: path, Next: func(now session.Node) ([]byte, error) {
				return append(now.Data, 'x'), nil
			}}.Do(context.Background())
			written <- err
		}()
		synctest.Wait()
		require.NoError(t, srv.Set(path, []byte("xx")), "as if it had been applied")
		pings := srv.Intercept(zktest.Match{Op: zktest.OpPing, Times: -1}, zktest.Ignore())
		for began := time.Now(); len(written) == 0 && time.Since(began) < bubble.Timeout; synctest.Wait() {
			srv.SendEvent(zktest.Everyone, zktest.NodeDataChanged, "/other")
			time.Sleep(time.Second)
		}
		pings.Remove()
		require.ErrorIs(t, <-written, zkrecipes.ErrUnknownOutcome)
		node, _ := srv.Node(path)
		require.Equal(t, "xx", string(node.Data))
	})
}

// TestReplacement_FencedAfterALostReply: the second copy was refused, and the first may have been applied.
func TestReplacement_FencedAfterALostReply(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *client.Client) {
		require.NoError(t, c.CreateAll(t.Context(), path, []byte("old")))
		copies := 0
		_, err := Replacement{
			Client: c, Path: path, Idempotent: true,
			Next: func(session.Node) ([]byte, error) { return []byte("new"), nil },
			Apply: func(context.Context, ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
				if copies++; copies == 1 {
					return nil, zkrecipes.ErrUnknownOutcome
				}
				return nil, zkrecipes.ErrFenced
			},
		}.Do(t.Context())
		require.Equal(t, 2, copies)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.NotErrorIs(t, err, zkrecipes.ErrFenced)
	})
}

// TestReplacement_Cost: one read and one write, even if the write creates the node. If the node disappears in between,
// both are repeated.
func TestReplacement_Cost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
		write := func(path string) int {
			sent := bubble.Requests(srv)
			defer sent.Remove()
			_, err := Replacement{
				Client: c, Path: path,
				Next: func(session.Node) ([]byte, error) { return []byte("new"), nil },
			}.Do(t.Context())
			require.NoError(t, err)
			return sent.Hits()
		}
		require.Equal(t, 2, write("/new"))
		require.Equal(t, 2, write("/new"))
		inVain := srv.Intercept(zktest.Match{Op: zktest.OpMulti},
			zktest.Before(func(zktest.Request) { require.NoError(t, srv.Delete("/new")) }))
		require.Equal(t, 4, write("/new")+inVain.Hits())
	})
}

// TestReplacement_CannotGoOn: the node cannot be read, or its parents cannot be created. Nothing is written, and the
// error shows why.
func TestReplacement_CannotGoOn(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(srv *zktest.Server, c *client.Client)
		next   func(srv *zktest.Server, c *client.Client) error // in the meantime
		apply  func(c *client.Client) error                     // what the transaction runs into
		is     error
	}{
		"reading is refused": {
			before: func(srv *zktest.Server, _ *client.Client) {
				srv.Intercept(zktest.Match{Op: zktest.OpGetData}, zktest.Fail(zktest.CodeNoAuth))
			}, is: zk.ErrNoAuth,
		},
		"making parents is refused": {
			before: func(srv *zktest.Server, _ *client.Client) {
				srv.Intercept(zktest.Match{Op: zktest.OpCreateContainer}, zktest.Fail(zktest.CodeNoAuth))
			}, is: zk.ErrNoAuth,
		},
		"client closed before the parents are made": {apply: func(c *client.Client) error {
			_ = c.Close() // never fails
			return &session.OpError{Op: "multi", Path: path, Err: zk.ErrNoNode}
		}, is: zkrecipes.ErrClosed},
		"client closed before it is sent": {
			next: func(_ *zktest.Server, c *client.Client) error { return c.Close() },
			is:   zkrecipes.ErrClosed,
		},
		"old state, and the newest is refused": {next: func(srv *zktest.Server, _ *client.Client) error {
			srv.Intercept(zktest.Match{Op: zktest.OpSync}, zktest.Fail(zktest.CodeNoAuth))
			return errors.New("not this state")
		}, is: zk.ErrNoAuth},
		"guard is missing": {apply: func(*client.Client) error {
			return &session.OpError{Op: "multi", Path: "/app/guard", Err: zk.ErrNoNode}
		}, is: zk.ErrNoNode},
		"something is missing": {apply: func(*client.Client) error { return zk.ErrNoNode }, is: zk.ErrNoNode},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
				if tt.before != nil {
					tt.before(srv, c)
				}
				asked := 0
				r := Replacement{Client: c, Path: path, Next: func(session.Node) ([]byte, error) {
					asked++
					if tt.next != nil {
						return []byte("new"), tt.next(srv, c)
					}
					return []byte("new"), nil
				}}
				if tt.apply != nil {
					r.Apply = func(context.Context, ...zkrecipes.Op) ([]zkrecipes.OpResult, error) { return nil, tt.apply(c) }
				}
				_, err := r.Do(t.Context())
				require.ErrorIs(t, err, tt.is)
				require.LessOrEqual(t, asked, 1)
				require.False(t, srv.Exists(path))
			})
		})
	}
}

// TestMarked_NodeDeletedByHand: the node is created again from the seed. The deletion is noticed when the node is read,
// or when the update is sent.
func TestMarked_NodeDeletedByHand(t *testing.T) {
	old := errors.New("old data")
	for name, next := range map[string]func(data []byte) ([]byte, error){
		"sent": func(data []byte) ([]byte, error) { return append(data, 'x'), nil },
		"read": func(data []byte) ([]byte, error) {
			if string(data) == "seedx" { // what the last update left
				return nil, old
			}
			return append(data, 'x'), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
				m := NewMarked(c, path, []byte("seed"))
				require.NoError(t, add(t.Context(), m))
				require.NoError(t, srv.DeleteAll(path))
				data, err := m.Update(t.Context(), next)
				require.NoError(t, err)
				require.Equal(t, "seedx", string(data))
				require.Len(t, srv.Children(path), 1, "the marker")
				require.NoError(t, m.Close(t.Context()))
			})
		})
	}
}

// TestMarked_NodeDeletedAfterALostReply: the marker was deleted with it, so nothing shows whether the update was
// applied. It is not applied to another node.
func TestMarked_NodeDeletedAfterALostReply(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
		m := NewMarked(c, path, nil)
		require.NoError(t, add(t.Context(), m))
		update := zktest.Match{Op: zktest.OpMulti, Path: "^" + path + "$"}
		srv.Intercept(update, zktest.DropRequest())
		srv.Intercept(update, zktest.Before(func(zktest.Request) { require.NoError(t, srv.DeleteAll(path)) }))
		require.ErrorIs(t, add(t.Context(), m), zkrecipes.ErrUnknownOutcome)
		require.False(t, srv.Exists(path))
	})
}

// TestMarked_CallerGoneOrClientClosed: another update is running. Nothing is sent, and no update waits forever.
func TestMarked_CallerGoneOrClientClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, c *client.Client) {
		m := NewMarked(c, path, nil)
		unlock, err := m.lock(t.Context())
		require.NoError(t, err)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		err = add(gone, m)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, path)
		closed := make(chan error)
		go func() { closed <- m.Close(t.Context()) }()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.NoError(t, <-closed, "the marker goes with its session")
		unlock()
		require.ErrorIs(t, add(t.Context(), m), zkrecipes.ErrClosed)
		require.False(t, srv.Exists(path))
	})
}
