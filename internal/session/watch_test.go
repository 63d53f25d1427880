package session_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Of everything that fires a watch, only the deletion of its node shows that the node was deleted.
func TestWatch_SaysDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		fire    func(srv *zktest.Server, s *session.Session, w *session.Watch)
		deleted bool
	}{
		"deleted": {
			func(srv *zktest.Server, _ *session.Session, _ *session.Watch) { require.NoError(t, srv.Delete("/a")) },
			true,
		},
		"set": {
			func(srv *zktest.Server, _ *session.Session, _ *session.Watch) { require.NoError(t, srv.Set("/a", nil)) },
			false,
		},
		"set, and then deleted": {func(srv *zktest.Server, _ *session.Session, _ *session.Watch) {
			require.NoError(t, srv.Set("/a", nil))
			require.NoError(t, srv.Delete("/a"))
		}, false},
		"new connection": {func(srv *zktest.Server, _ *session.Session, _ *session.Watch) {
			srv.Cut(zktest.Everyone)
			require.NoError(t, srv.Delete("/a"))
			time.Sleep(time.Second)
		}, false},
		"dropped": {func(_ *zktest.Server, s *session.Session, w *session.Watch) { s.Unwatch(w) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				trial.Create(t, srv, "/a", "")
				s := trial.Live(t, trial.Dial(t, srv))
				_, _, w, err := s.GetW(t.Context(), "/a")
				require.NoError(t, err)
				require.False(t, w.SaysDeleted())
				c.fire(srv, s, w)
				require.True(t, trial.Fired(w))
				require.Equal(t, c.deleted, w.SaysDeleted())
			})
		})
	}
	var none *session.Watch
	require.False(t, none.SaysDeleted())
}

func TestWatch_EachKind_FiresAtItsChanges(t *testing.T) {
	data := func(ctx context.Context, s *session.Session) (*session.Watch, error) {
		_, _, w, err := s.GetW(ctx, "/a")
		return w, err
	}
	exists := func(ctx context.Context, s *session.Session) (*session.Watch, error) {
		_, _, w, err := s.ExistsW(ctx, "/a")
		return w, err
	}
	missing := func(ctx context.Context, s *session.Session) (*session.Watch, error) {
		_, _, w, err := s.ExistsW(ctx, "/m")
		return w, err
	}
	children := func(ctx context.Context, s *session.Session) (*session.Watch, error) {
		_, w, err := s.ChildrenW(ctx, "/a")
		return w, err
	}
	set := func(srv *zktest.Server) error { return srv.Set("/a", nil) }
	remove := func(srv *zktest.Server) error { return srv.Delete("/a") }
	child := func(srv *zktest.Server) error { _, err := srv.Create("/a/b", nil, zktest.Persistent); return err }
	create := func(srv *zktest.Server) error { _, err := srv.Create("/m", nil, zktest.Persistent); return err }
	other := func(srv *zktest.Server) error { _, err := srv.Create("/other", nil, zktest.Persistent); return err }
	tests := []struct {
		name   string
		watch  func(context.Context, *session.Session) (*session.Watch, error)
		change func(*zktest.Server) error
		fires  bool
	}{
		{"data, set", data, set, true},
		{"data, deleted", data, remove, true},
		{"data, child", data, child, false},
		{"data, other node", data, other, false},
		{"exists, set", exists, set, true},
		{"exists, deleted", exists, remove, true},
		{"missing, created", missing, create, true},
		{"missing, other node", missing, other, false},
		{"children, child", children, child, true},
		{"children, deleted", children, remove, true},
		{"children, set", children, set, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				trial.Create(t, srv, "/a", "")
				s := trial.Live(t, trial.Dial(t, srv))
				w, err := tt.watch(t.Context(), s)
				require.NoError(t, err)
				require.False(t, trial.Fired(w))
				require.NoError(t, tt.change(srv))
				require.Equal(t, tt.fires, trial.Fired(w))
			})
		})
	}
}

// TestWatch_HasFired_BeforeALaterAnswer: a caller with an answer from after the change knows of the change.
func TestWatch_HasFired_BeforeALaterAnswer(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		for range 200 {
			trial.Create(t, srv, "/a", "")
			_, _, w, err := s.GetW(t.Context(), "/a")
			require.NoError(t, err)
			require.False(t, w.HasFired())
			rule := srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.Before(func(zktest.Request) {
				require.NoError(t, srv.Delete("/a"))
			}))
			path, err := s.Create(t.Context(), "/b-", nil, zk.FlagSequence)
			require.True(t, w.HasFired())
			require.NoError(t, err)
			<-rule.Done()
			require.NoError(t, srv.Delete(path))
		}
	})
}

func TestWatch_ManyCallersOnOnePath_ShareOne(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "")
		s := trial.Live(t, trial.Dial(t, srv))
		var mu sync.Mutex
		distinct := map[*session.Watch]bool{}
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				ctx := t.Context()
				if i%2 == 1 {
					short, cancel := context.WithCancel(ctx)
					ctx = short
					go cancel() // at an arbitrary moment
				}
				_, _, w, err := s.GetW(ctx, "/a")
				if err != nil {
					require.ErrorIs(t, err, context.Canceled)
					require.Nil(t, w)
					return
				}
				mu.Lock()
				distinct[w] = true
				mu.Unlock()
			})
		}
		wg.Wait()
		require.Equal(t, 1, trial.Watches(srv))
		require.Len(t, distinct, 1)
		require.NoError(t, srv.Set("/a", nil))
		for w := range distinct {
			require.True(t, trial.Fired(w))
		}
		require.Zero(t, trial.Watches(srv))
		_, _, w, err := s.GetW(t.Context(), "/a")
		require.NoError(t, err)
		require.False(t, trial.Fired(w), "a new one")
	})
}

func TestWatch_MissingNode_LeavesNone(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		_, _, w, err := s.GetW(t.Context(), "/missing")
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.Nil(t, w)
		_, w, err = s.ChildrenW(t.Context(), "/missing")
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.Nil(t, w)
		require.Zero(t, trial.Watches(srv))
		_, _, _, err = s.GetW(trial.Within(t, time.Second), "/missing")
		require.ErrorIs(t, err, zk.ErrNoNode, "nor does the failed one stand in the way of the next")
		exists, _, w, err := s.ExistsW(t.Context(), "/missing")
		require.NoError(t, err)
		require.False(t, exists)
		require.Equal(t, 1, trial.Watches(srv))
		trial.Create(t, srv, "/missing", "")
		require.True(t, trial.Fired(w))
		_, _, w, err = s.GetW(trial.Within(t, time.Second), "/missing")
		require.NoError(t, err)
		require.False(t, trial.Fired(w))
	})
}

// A caller that waits for nothing but the watch, as a program of conn's users may, must not wait forever.
func TestWatch_SessionEnds_FiresAll(t *testing.T) {
	for name, end := range map[string]func(*zktest.Server, *conn.Client, int64){
		"expired": func(srv *zktest.Server, _ *conn.Client, id int64) { srv.Expire(id) },
		"silence": func(srv *zktest.Server, _ *conn.Client, _ int64) { trial.CutOff(srv, trial.Ours) },
		"closed":  func(_ *zktest.Server, c *conn.Client, _ int64) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				trial.Create(t, srv, "/a", "")
				c := trial.Dial(t, srv)
				s := trial.Live(t, c)
				_, _, data, err := s.GetW(t.Context(), "/a")
				require.NoError(t, err)
				children, list, err := s.ChildrenW(t.Context(), "/a")
				require.NoError(t, err)
				require.Empty(t, children)
				end(srv, c, s.ID())
				time.Sleep(time.Minute)
				require.Error(t, s.Err())
				require.True(t, trial.Fired(data))
				require.True(t, trial.Fired(list))
				require.False(t, data.SaysDeleted())
			})
		})
	}
}

func TestWatch_Reconnect_FiresAll(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "")
		s := trial.Live(t, trial.Dial(t, srv))
		for range 3 {
			_, _, w, err := s.GetW(t.Context(), "/a")
			require.NoError(t, err)
			trial.CutOff(srv, trial.Ours)
			require.False(t, trial.Fired(w), "there is nothing to read yet")
			srv.Accept(trial.Ours)
			time.Sleep(time.Second)
			require.True(t, trial.Fired(w))
			require.Zero(t, trial.Watches(srv), "a caller that still wants one sets it")
		}
	})
}

func TestWatch_NotYetSetWhenTheConnectionGoes_IsSetOnTheNext(t *testing.T) {
	for name, fault := range map[string]zktest.Action{
		"request lost": zktest.DropRequest(), "reply lost": zktest.DropReply(),
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				trial.Create(t, srv, "/a", "")
				s := trial.Live(t, trial.Dial(t, srv))
				srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: 2}, fault)
				var wg sync.WaitGroup
				for range 10 {
					wg.Go(func() {
						_, _, w, err := s.GetW(t.Context(), "/a")
						require.NoError(t, err)
						<-w.Fired()
					})
				}
				time.Sleep(5 * time.Second)
				require.Equal(t, 1, trial.Watches(srv))
				require.NoError(t, srv.Set("/a", nil))
				wg.Wait()
			})
		})
	}
}

// A call that gave up before its answer left its watch on the server until it fired. A loop of calls with short
// contexts, on one path after another, therefore left as many as it had made.
func TestWatch_GivenUpInFlight_IsRemoved(t *testing.T) {
	const calls = 1000
	for name, read := range map[string]func(ctx context.Context, s *session.Session, path string) error{
		"get": func(ctx context.Context, s *session.Session, path string) error {
			_, _, _, err := s.GetW(ctx, path)
			return err
		},
		"exists": func(ctx context.Context, s *session.Session, path string) error {
			_, _, _, err := s.ExistsW(ctx, path)
			return err
		},
		"exists, missing": func(ctx context.Context, s *session.Session, path string) error {
			_, _, _, err := s.ExistsW(ctx, path+"-missing")
			return err
		},
		"children": func(ctx context.Context, s *session.Session, path string) error {
			_, _, err := s.ChildrenW(ctx, path)
			return err
		},
		"both": func(ctx context.Context, s *session.Session, path string) error {
			one, two := s.GetBothW(ctx, "/a", path, nil)
			return cmp.Or(one.Err, two.Err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				trial.Create(t, srv, "/a", "")
				paths := make([]string, calls)
				for i := range paths {
					paths[i] = fmt.Sprintf("/a/%d", i)
					trial.Create(t, srv, paths[i], "")
				}
				s := trial.Live(t, trial.Dial(t, srv))
				srv.Stall(trial.Ours, zktest.FromServer)
				for _, path := range paths {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					require.ErrorIs(t, read(ctx, s, path), context.DeadlineExceeded)
					cancel()
				}
				require.GreaterOrEqual(t, trial.Watches(srv), calls)
				srv.Heal(trial.Ours)
				require.Zero(t, trial.Watches(srv))
				require.Zero(t, s.WatchesKept())
			})
		})
	}
}

// A server that does not know the request keeps the watches. The client does not.
func TestWatch_GivenUpInFlight_ServerDoesNotRemove(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		srv.Intercept(zktest.Match{Op: zktest.OpRemoveWatches, Times: -1}, zktest.Fail(zktest.CodeUnimplemented))
		srv.Stall(trial.Ours, zktest.FromServer)
		for i := range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, _, _, err := s.ExistsW(ctx, fmt.Sprintf("/missing-%d", i))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
		srv.Heal(trial.Ours)
		require.Equal(t, 1000, trial.Watches(srv))
		require.Zero(t, s.WatchesKept())
	})
}

// The watch of a call that gives up belongs to others, too: a caller that has it, one that is about to, one of another
// kind, and a feed.
func TestWatch_GivenUpInFlight_OthersKeepTheirs(t *testing.T) {
	get := func(ctx context.Context, s *session.Session) *session.Watch {
		_, _, w, _ := s.GetW(ctx, "/a") // nil if it fails
		return w
	}
	for name, c := range map[string]struct {
		before, meanwhile, after func(ctx context.Context, s *session.Session) *session.Watch
	}{
		"one that has it": {before: get},
		"one of another kind": {before: func(ctx context.Context, s *session.Session) *session.Watch {
			_, _, w, _ := s.ExistsW(ctx, "/a")
			return w
		}},
		"one that asks for it": {meanwhile: get},
		"one that comes later": {after: get},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				trial.Create(t, srv, "/a", "")
				s := trial.Live(t, trial.Dial(t, srv))
				watches := make(chan *session.Watch, 1)
				if c.before != nil {
					watches <- c.before(t.Context(), s)
				}
				srv.Stall(trial.Ours, zktest.FromServer)
				require.Nil(t, get(trial.Within(t, time.Millisecond), s))
				if c.meanwhile != nil {
					go func() { watches <- c.meanwhile(t.Context(), s) }()
					synctest.Wait()
				}
				srv.Heal(trial.Ours)
				synctest.Wait()
				if c.after != nil {
					watches <- c.after(t.Context(), s)
				}
				w := <-watches
				require.False(t, trial.Fired(w))
				require.Equal(t, 1, trial.Watches(srv))
				require.NoError(t, srv.Set("/a", nil))
				require.True(t, trial.Fired(w))
				require.Zero(t, s.WatchesKept())
			})
		})
	}
}

// The caller gives up, and the node changes before the answer, which sets the watch again.
func TestWatch_GivenUpInFlight_FiredMeanwhile(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "")
		s := trial.Live(t, trial.Dial(t, srv))
		_, _, w, err := s.GetW(t.Context(), "/a")
		require.NoError(t, err)
		srv.Intercept(zktest.Match{Op: zktest.OpGetData}, zktest.Before(func(zktest.Request) {
			require.NoError(t, srv.Set("/a", nil))
		}))
		srv.Stall(trial.Ours, zktest.FromServer)
		_, _, _, err = s.GetW(trial.Within(t, time.Millisecond), "/a")
		require.Error(t, err)
		require.Equal(t, 1, trial.Watches(srv))
		srv.Heal(trial.Ours)
		require.True(t, trial.Fired(w))
		require.Zero(t, trial.Watches(srv))
	})
}

// A reply that the client refuses has set the watch all the same.
func TestWatch_ReplyTooLarge_IsRemoved(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", strings.Repeat("x", 8<<10))
		s := trial.Live(t, trial.Dial(t, srv, conn.WithMaxReplySize(4<<10)))
		_, _, _, err := s.GetW(t.Context(), "/a")
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.Zero(t, trial.Watches(srv))
		require.Zero(t, s.WatchesKept())
	})
}

// The last caller drops a watch while another call, which then fails, is about to set it.
func TestUnwatch_WhileAnotherCallerFails(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "")
		s := trial.Live(t, trial.Dial(t, srv))
		_, _, w, err := s.GetW(t.Context(), "/a")
		require.NoError(t, err)
		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Where: func(zktest.Request) bool {
			s.Unwatch(w)
			return true
		}}, zktest.Fail(zktest.CodeNoAuth))
		_, _, _, err = s.GetW(t.Context(), "/a")
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.Zero(t, trial.Watches(srv))
		require.Zero(t, s.WatchesKept())
	})
}

// The last caller drops a watch, or gives up on one, while a call for a watch of another kind on the path is about to
// fail.
func TestUnwatch_WhileACallOfAnotherKindFails(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, srv *zktest.Server, s *session.Session) (drop func()){
		"dropped": func(t *testing.T, _ *zktest.Server, s *session.Session) func() {
			t.Helper()
			_, _, w, err := s.ExistsW(t.Context(), "/missing")
			require.NoError(t, err)
			return func() { s.Unwatch(w) }
		},
		"given up": func(t *testing.T, srv *zktest.Server, s *session.Session) func() {
			t.Helper()
			srv.Stall(trial.Ours, zktest.FromServer)
			_, _, _, err := s.ExistsW(trial.Within(t, time.Millisecond), "/missing")
			require.Error(t, err)
			return func() { srv.Heal(trial.Ours) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				s := trial.Live(t, trial.Dial(t, srv))
				answered, failed := make(chan struct{}), make(chan error)
				srv.Intercept(zktest.Match{Op: zktest.OpGetData}, zktest.HoldReplyUntil(answered))
				drop := leave(t, srv, s)
				go func() {
					_, _, _, err := s.GetW(t.Context(), "/missing")
					failed <- err
				}()
				synctest.Wait()
				drop()
				synctest.Wait()
				close(answered)
				require.ErrorIs(t, <-failed, zk.ErrNoNode)
				require.Zero(t, trial.Watches(srv))
				require.Zero(t, s.WatchesKept())
			})
		})
	}
}

// TestUnwatch: the watch stays on the server as long as one caller wants it, or one of another kind, or a feed.
func TestUnwatch(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		look := func() *session.Watch {
			t.Helper()
			_, _, w, err := s.ExistsW(t.Context(), "/missing")
			require.NoError(t, err)
			return w
		}
		first, second := look(), look()
		s.Unwatch(first)
		require.Equal(t, 1, trial.Watches(srv), "the other caller waits")
		require.False(t, trial.Fired(second))
		s.Unwatch(second)
		require.Zero(t, trial.Watches(srv))
		require.True(t, trial.Fired(second), "nothing would tell of a change")
		s.Unwatch(second)
		s.Unwatch(nil)
		third := look()
		require.False(t, trial.Fired(third), "a new one")
		require.Equal(t, 1, trial.Watches(srv))

		f := s.Follow("/", trial.NeedsAll)
		s.Unwatch(third)
		require.Equal(t, 1, trial.Watches(srv), "the feed may need it")
		f.Stop()
		s.Unwatch(look())
		require.Zero(t, trial.Watches(srv))

		trial.Create(t, srv, "/a", "")
		_, data, err := s.ChildrenW(t.Context(), "/a")
		require.NoError(t, err)
		_, _, children, err := s.GetW(t.Context(), "/a")
		require.NoError(t, err)
		s.Unwatch(children)
		require.Equal(t, 2, trial.Watches(srv), "a removal takes both kinds")
		require.False(t, trial.Fired(data))
		s.Unwatch(data)
		require.Zero(t, trial.Watches(srv))
	})
}

// TestUnwatch_ServerHangsUp: a server that does not know the request does not get it forever. A single lost connection
// proves nothing.
func TestUnwatch_ServerHangsUp(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		asked := srv.Intercept(zktest.Match{Op: zktest.OpRemoveWatches, Times: -1}, zktest.DropRequest())
		unwatch := func() {
			_, _, w, err := s.ExistsW(t.Context(), "/missing")
			require.NoError(t, err)
			s.Unwatch(w)
			time.Sleep(time.Second)
		}
		for range 5 {
			unwatch()
		}
		require.Equal(t, 2, asked.Hits())
		asked.Remove()
	})
}

// TestUnwatch_SeveralLostWithOneConnection: they prove no more than one.
func TestUnwatch_SeveralLostWithOneConnection(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		unwatch := func(paths ...string) {
			for _, path := range paths {
				_, _, w, err := s.ExistsW(t.Context(), path)
				require.NoError(t, err)
				defer s.Unwatch(w)
			}
		}
		srv.Intercept(zktest.Match{Op: zktest.OpRemoveWatches, Times: 3}, zktest.Ignore())
		unwatch("/a", "/b", "/c")
		synctest.Wait()
		srv.Cut(zktest.Everyone)
		time.Sleep(time.Second)
		unwatch("/d")
		synctest.Wait()
		require.Zero(t, trial.Watches(srv))
	})
}

// TestUnwatch_OneLostAndOneNotSent: a request that was never sent says nothing about the server.
func TestUnwatch_OneLostAndOneNotSent(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var free chan struct{} // what is written to the connection waits until it is closed
		p := trial.Pipe{OnWrite: func(frames []byte) {
			if binary.BigEndian.Uint32(frames[8:]) == uint32(zktest.OpRemoveWatches) {
				<-free
			}
		}}
		s := trial.Live(t, trial.Dial(t, srv, trial.Through(srv, p)))
		watched := func(path string) *session.Watch {
			_, _, w, err := s.ExistsW(t.Context(), path)
			require.NoError(t, err)
			return w
		}
		for range 2 {
			free = make(chan struct{})
			lost, unsent := watched("/a"), watched("/b")
			go s.Unwatch(lost)
			synctest.Wait()
			s.Unwatch(unsent)
			srv.Cut(zktest.Everyone)
			synctest.Wait()
			close(free)
			time.Sleep(time.Second)
		}
		s.Unwatch(watched("/c"))
		require.Equal(t, 1, trial.Watches(srv))
	})
}

// TestUnwatch_BelowAPrefix: the server knows the path by a different name.
func TestUnwatch_BelowAPrefix(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		sub, err := trial.Dial(t, srv).Sub("/sub")
		require.NoError(t, err)
		s := trial.Live(t, sub)
		_, _, w, err := s.ExistsW(t.Context(), "/missing")
		require.NoError(t, err)
		require.Equal(t, 1, trial.Watches(srv))
		s.Unwatch(w)
		require.Zero(t, trial.Watches(srv))
	})
}

// TestUnwatch_WhileAnotherCallerAsks: its read may set the watch after all.
func TestUnwatch_WhileAnotherCallerAsks(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		_, _, w, err := s.ExistsW(t.Context(), "/missing")
		require.NoError(t, err)
		answered := make(chan struct{})
		srv.Intercept(zktest.Match{Op: zktest.OpExists}, zktest.HoldReplyUntil(answered))
		asking := make(chan *session.Watch)
		go func() {
			_, _, w, err := s.ExistsW(t.Context(), "/missing")
			if err != nil {
				t.Error(err)
			}
			asking <- w
		}()
		synctest.Wait()
		s.Unwatch(w)
		close(answered)
		w = <-asking
		require.Equal(t, 1, trial.Watches(srv))
		require.False(t, trial.Fired(w))
		trial.Create(t, srv, "/missing", "")
		require.True(t, trial.Fired(w))
	})
}

// TestUnwatch_ReadIsServedBeforeTheRemoval: the removal removes the watches of a caller and of a feed that came in
// between. Both are notified and read again.
func TestUnwatch_ReadIsServedBeforeTheRemoval(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		_, _, w, err := s.ExistsW(t.Context(), "/missing")
		require.NoError(t, err)
		remove := s.StartUnwatch(w)
		_, _, next, err := s.ExistsW(t.Context(), "/missing")
		require.NoError(t, err)
		f := s.Follow("/missing", trial.NeedsAll)
		defer f.Stop()
		remove()
		require.Zero(t, trial.Watches(srv))
		require.True(t, trial.Fired(next))
		require.Equal(t, []string{"EventNodeDeleted /missing"}, trial.NewsOf(f))
	})
}

// TestGetBothW: each node is read as by GetW, whatever happens to the other.
func TestGetBothW(t *testing.T) {
	gets := zktest.Match{Op: zktest.OpGetData}
	for name, c := range map[string]struct {
		first, second string
		before        func(srv *zktest.Server)
		one, two      error
		requests      int // 0 means any
	}{
		"both":                 {first: "/a", second: "/b", requests: 2},
		"the first is missing": {first: "/m", second: "/b", one: zk.ErrNoNode, requests: 2},
		"the second is":        {first: "/a", second: "/m", two: zk.ErrNoNode, requests: 2},
		"cut before the first answer": {first: "/a", second: "/b", before: func(srv *zktest.Server) {
			srv.Intercept(gets, zktest.DropReply())
		}},
		"cut before the second": {first: "/a", second: "/b", before: func(srv *zktest.Server) {
			srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: "/b"}, zktest.DropReply())
		}},
		"throttled": {first: "/a", second: "/b", requests: 2, before: func(srv *zktest.Server) {
			srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: "/b"}, zktest.Fail(zktest.CodeThrottled))
		}},
		"the second is malformed": {first: "/a", second: "b", two: errMalformed, requests: 1},
		"the first is malformed":  {first: "a", second: "/b", one: errMalformed, requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				trial.Create(t, srv, "/a", "A")
				trial.Create(t, srv, "/b", "B")
				s := trial.Live(t, trial.Dial(t, srv))
				if c.before != nil {
					c.before(srv)
				}
				sent := srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: -1}, zktest.Proceed())
				one, two := s.GetBothW(t.Context(), c.first, c.second, nil)
				if c.requests > 0 {
					require.Equal(t, c.requests, sent.Hits())
				}
				for _, got := range []struct {
					session.Got
					path string
					want error
				}{{one, "/a", c.one}, {two, "/b", c.two}} {
					switch {
					case got.want == nil:
						require.NoError(t, got.Err)
						require.Equal(t, map[string]string{"/a": "A", "/b": "B"}[got.path], string(got.Data))
						require.NoError(t, srv.Delete(got.path))
						synctest.Wait()
						require.True(t, got.Watch.HasFired())
						if c.requests > 0 { // otherwise a new connection may have fired it
							require.True(t, got.Watch.SaysDeleted())
						}
					case errors.Is(got.want, errMalformed):
						require.Error(t, got.Err)
					default:
						require.ErrorIs(t, got.Err, got.want)
					}
				}
				require.Zero(t, s.WatchesKept())
			})
		})
	}
}

var errMalformed = errors.New("malformed")

// TestGetBothW_ConnectionEndsBeforeTheRequests: neither is sent on it, and both are sent on the next one.
func TestGetBothW_ConnectionEndsBeforeTheRequests(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "A")
		trial.Create(t, srv, "/b", "B")
		c := trial.Dial(t, srv, conn.WithMaxInFlight(1))
		s := trial.Live(t, c)
		srv.Intercept(zktest.Match{Op: zktest.OpExists}, zktest.Ignore())
		go func() { _, _, _ = c.Exists(t.Context(), "/") }()
		synctest.Wait()
		time.AfterFunc(time.Second, func() { srv.Cut(trial.Ours) }) // this frees the slot
		one, two := s.GetBothW(s.Bounded(t.Context()), "/a", "/b", nil)
		require.Equal(t, []string{"A", "B"}, []string{string(one.Data), string(two.Data)})
	})
}

// TestGetBothW_ContextEnds: neither read leaves a watch behind that nobody waits for.
func TestGetBothW_ContextEnds(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		srv.Stall(trial.Ours, zktest.FromServer)
		ctx := trial.Within(t, time.Second)
		one, two := s.GetBothW(ctx, "/a", "/b", nil)
		require.ErrorIs(t, one.Err, context.Cause(ctx))
		require.ErrorIs(t, two.Err, context.Cause(ctx))
		require.Zero(t, s.WatchesKept())
	})
}
