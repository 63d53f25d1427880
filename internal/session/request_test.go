package session_test

import (
	"context"
	"encoding/binary"
	"fmt"
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
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestRequests_ConnectionTakesNoMore: a call returns with its context even when there is no room to send its request,
// as with a server that has been stopped and has left many requests unread.
func TestRequests_ConnectionTakesNoMore(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		jammed, room := false, 16<<10 // the minimum that a socket takes
		var mu sync.Mutex
		free := make(chan struct{})
		unjam := sync.OnceFunc(func() { close(free) })
		defer unjam()
		p := trial.Pipe{OnWrite: func(b []byte) {
			mu.Lock()
			if jammed {
				room -= len(b)
			}
			full := room < 0
			mu.Unlock()
			if full {
				<-free
			}
		}}
		c := trial.Dial(t, srv, trial.Through(srv, p))
		s := trial.Live(t, c)
		_, err := s.Create(t.Context(), "/a", nil, 0)
		require.NoError(t, err)
		srv.Stall(trial.Ours, zktest.FromServer)
		mu.Lock()
		jammed = true
		mu.Unlock()
		time.AfterFunc(3*time.Second, unjam)
		var wg sync.WaitGroup
		for i := range 2000 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var err error
				took := trial.After(func() {
					switch i % 4 {
					case 0:
						_, err = s.Children(ctx, "/a")
					case 1:
						_, err = s.Create(ctx, fmt.Sprintf("/a/%d", i), make([]byte, 100), 0)
					case 2:
						err = s.Delete(ctx, "/a/x", -1)
					default:
						s.StartDelete("/a/x", -1, func(error) {})
						<-ctx.Done()
						err = ctx.Err()
					}
				})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.LessOrEqual(t, took, time.Second)
			})
			if i < 500 { // one after another until long after there is no room, then all at once
				synctest.Wait()
			}
		}
		wg.Wait()
	})
}

// Each answer reaches its call.
func TestRequests_ManyAtOnce(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				ctx, path := t.Context(), fmt.Sprintf("/%d", i)
				for range 20 {
					created, err := s.Create(ctx, path, []byte(path), 0)
					require.NoError(t, err)
					require.Equal(t, path, created)
					data, stat, err := s.Get(ctx, path)
					require.NoError(t, err)
					require.Equal(t, path, string(data))
					names, err := s.Children(ctx, path)
					require.NoError(t, err)
					require.Empty(t, names)
					results, zxid, err := s.MultiZxid(ctx, zkrecipes.OpCreate(path+"/x", nil, 0), zkrecipes.OpSet(path, nil, 0))
					require.NoError(t, err)
					require.Equal(t, path+"/x", results[0].Path)
					require.Equal(t, zxid, results[1].Stat.Mzxid)
					require.Greater(t, zxid, stat.Czxid)
					require.NoError(t, s.Delete(ctx, path+"/x", -1))
					require.NoError(t, s.Delete(ctx, path, 1))
				}
			})
		}
		wg.Wait()
	})
}

// garbles makes replies with a body unreadable while it is on.
func garbles(on *atomic.Bool) trial.Pipe {
	return trial.Pipe{OnRead: func(frame []byte) {
		if on.Load() && len(frame) > 24 && int32(binary.BigEndian.Uint32(frame[4:])) > 0 { // a reply
			binary.BigEndian.PutUint32(frame[20:], 1<<30)
		}
	}}
}

func TestRequests_ReplyThatIsNone(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var garble atomic.Bool
		s := trial.Live(t, trial.Dial(t, srv, trial.Through(srv, garbles(&garble))))
		garble.Store(true)
		_, err := s.Create(t.Context(), "/a", nil, 0)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.ErrorContains(t, err, "malformed reply")
		_, err = s.Children(trial.Within(t, time.Minute), "/")
		require.ErrorContains(t, err, "malformed reply")
		require.NotErrorIs(t, err, trial.ErrTooLong, "and is not asked for again and again")
		_, err = s.Multi(t.Context(), zkrecipes.OpCreate("/b", nil, 0))
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		garble.Store(false)
		names, err := s.Children(t.Context(), "/")
		require.NoError(t, err, "the connection goes on")
		require.Subset(t, names, []string{"a", "b"})
	})
}

// listing is the result of a list that was requested after a create.
type listing struct {
	names []string
	err   error
}

func startListing(t *testing.T, s *session.Session) (*session.Creation, chan listing) {
	t.Helper()
	listed := make(chan listing, 2)
	c, err := s.StartCreate(t.Context(), "/a-", nil, zk.FlagEphemeralSequential, 1, nil)
	require.NoError(t, err)
	require.True(t, s.ReadChildren("/", nil, func(names []string, _ zk.Stat, err error) { listed <- listing{names, err} }))
	return c, listed
}

func TestReadChildren_BehindACreate_OnceWhateverHappens(t *testing.T) {
	for name, test := range map[string]struct {
		disturb func(srv *zktest.Server)
		created error // or nil, where the connection ends with the answer still in flight
	}{
		"list refused": {func(srv *zktest.Server) {
			srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2}, zktest.Fail(-127))
		}, nil},
		"list lost": {func(srv *zktest.Server) {
			srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2}, zktest.DropRequest())
		}, zkrecipes.ErrUnknownOutcome},
		"list's answer lost": {func(srv *zktest.Server) {
			srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2}, zktest.DropReply())
		}, zkrecipes.ErrUnknownOutcome},
		"create's answer": {func(srv *zktest.Server) {
			srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.DropReply())
		}, zkrecipes.ErrUnknownOutcome},
		"create lost": {func(srv *zktest.Server) {
			srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.DropRequest())
		}, zkrecipes.ErrUnknownOutcome},
		"create refused": {func(srv *zktest.Server) {
			srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.Fail(-110))
		}, zk.ErrNodeExists},
		"both are late": {func(srv *zktest.Server) { srv.Stall(trial.Ours, zktest.FromServer) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				s := trial.Live(t, trial.Dial(t, srv))
				test.disturb(srv)
				creation, listed := startListing(t, s)
				time.AfterFunc(trial.Timeout/2, func() { srv.Heal(trial.Ours) })
				_, _, err := s.FinishCreate(t.Context(), creation)
				// Exactly this error.
				if err != nil || test.created != zkrecipes.ErrUnknownOutcome { //nolint:errorlint // the very one
					require.ErrorIs(t, err, test.created)
				}
				l := <-listed
				require.NoError(t, l.err)
				require.Contains(t, l.names, "zookeeper")
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Empty(t, listed)
			})
		})
	}
	t.Run("session over", func(t *testing.T) {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			c := trial.Dial(t, srv)
			s := trial.Live(t, c)
			srv.Stall(trial.Ours, zktest.FromServer)
			creation, listed := startListing(t, s)
			require.NoError(t, c.Close())
			_, _, err := s.FinishCreate(t.Context(), creation)
			require.ErrorIs(t, err, zkrecipes.ErrLost)
			require.Error(t, (<-listed).err)
			require.Empty(t, listed)
		})
	})
}

func TestStartDelete(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		_, err := s.Create(t.Context(), "/a", nil, 0)
		require.NoError(t, err)
		outcome := make(chan error, 1)
		done := func(err error) { outcome <- err }
		synctest.Wait() // the sender of the last request may still hold the connection
		require.False(t, s.StartDelete("a", -1, done), "no path")
		for _, want := range []error{nil, zk.ErrNoNode} {
			require.True(t, s.StartDelete("/a", -1, done))
			require.ErrorIs(t, <-outcome, want)
		}
		srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.DropReply())
		srv.Refuse(trial.Ours) // otherwise the next connection may be up when we check
		require.True(t, s.StartDelete("/a", -1, done))
		require.ErrorIs(t, <-outcome, zkrecipes.ErrUnknownOutcome)
		require.False(t, s.StartDelete("/a", -1, done), "no connection yet")
		srv.Accept(trial.Ours)
		require.NoError(t, s.Sync(t.Context(), "/"))
		synctest.Wait()
		require.True(t, s.StartDelete("/a", -1, done))
		require.ErrorIs(t, <-outcome, zk.ErrNoNode)
		srv.Expire(s.ID())
		<-s.Done()
		require.False(t, s.StartDelete("/a", -1, done))
		require.Empty(t, outcome)
	})
}

// TestRequests_XidsNeverComeAgain: a server takes the commit of a write that was sent on an earlier connection for that
// of the request that has the same xid now, and answers with its outcome.
func TestRequests_XidsNeverComeAgain(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		sent := trial.Requests(srv, zktest.OpCreate)
		seen := map[int32]bool{}
		for i := range 5 {
			for k := range 3 {
				_, err := s.Create(t.Context(), fmt.Sprintf("/%d-%d", i, k), nil, 0)
				require.NoError(t, err)
			}
			srv.Cut(trial.Ours)
			require.NoError(t, s.Sync(t.Context(), "/"))
		}
		for _, r := range sent.Values() {
			require.False(t, seen[r.Xid], "%#x", r.Xid)
			seen[r.Xid] = true
		}
		require.Len(t, seen, 15)
	})
}

// TestRequests_Answered_ConnectionLives: a server that answers requests is alive, even if it does not answer pings.
func TestRequests_Answered_ConnectionLives(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		l := trial.States(t, c)
		srv.Intercept(zktest.Match{Op: zktest.OpPing, Times: -1}, zktest.Ignore())
		for range 100 {
			time.Sleep(trial.Timeout / 20)
			_, _, err := s.Get(t.Context(), "/zookeeper")
			require.NoError(t, err)
		}
		require.NotContains(t, l.Values(), zkrecipes.Suspended)
	})
}

func TestConnectAnswer_WithoutATimeout_IsNone(t *testing.T) {
	for _, ms := range []int32{0, -1} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			c := trial.Dial(t, srv, trial.Through(srv, trial.ConnectReplies(func(n int32, frame []byte) {
				if n == 2 {
					binary.BigEndian.PutUint32(frame[8:], uint32(ms))
				}
			})))
			srv.Cut(trial.Ours)
			time.Sleep(5 * time.Second)
			require.NoError(t, c.Sync(t.Context(), "/"))
		})
	}
}

// A server cannot resume a session, and opens another one instead of reporting that.
func TestConnectAnswer_WithAnotherID_EndsTheSession(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var connects atomic.Int32
		c := trial.Dial(t, srv, trial.Through(srv, trial.Pipe{OnWrite: func(b []byte) {
			if len(b) == 49 && binary.BigEndian.Uint32(b) == 45 && connects.Add(1) == 2 { // the second connect request
				clear(b[20:28])
				clear(b[32:48])
			}
		}}))
		s := trial.Live(t, c)
		id := s.ID()
		defer s.Retain()()
		_, err := s.Create(t.Context(), "/held", nil, zk.FlagEphemeral)
		require.NoError(t, err)
		losses := trial.OnLoss(t, s, false)
		srv.Cut(trial.Ours)
		time.Sleep(3 * trial.Timeout)
		require.False(t, srv.Exists("/held"), "the server has ended the session")
		require.Len(t, losses.All(), 1, "and its holder knows")
		require.False(t, s.ValidUntil().After(time.Now()))
		require.ErrorIs(t, s.Err(), zkrecipes.ErrLost)
		require.Equal(t, id, s.ID())
	})
}

func TestMultiAnswer_OfAnotherLength_IsGarbled(t *testing.T) {
	for name, results := range map[string][]byte{
		"more": {
			0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, // error 0
			0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0,
			0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0,
			0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0x9b, 0xff, 0xff, 0xff, 0x9b, // no node
			0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff,
		},
		"none": {0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &bubble.Hostile{Answer: func(_ int, xid uint32) []byte {
					header := append(binary.BigEndian.AppendUint32(nil, xid), make([]byte, 12)...) // zxid, code
					return bubble.Frame(append(header, results...))
				}}
				s := trial.Live(t, trial.DialTo(t, "h1", conn.WithDialer(server.Dial)))
				c, err := s.StartCreate(t.Context(), "/a-guid-", nil, zk.FlagEphemeralSequential, 2, nil)
				require.NoError(t, err)
				paths, _, err := s.FinishCreate(t.Context(), c)
				require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome, "%v", paths)
			})
		})
	}
}

// Waking the writer would slow down a hand-over, so a caller itself writes what a socket has room for, however much it
// has sent before.
func TestRequests_ThatASocketHasRoomFor_AreWrittenByTheirCaller(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var writes atomic.Int32
		s := trial.Live(t, trial.Dial(t, srv, trial.Through(srv, trial.Pipe{OnWrite: func([]byte) { writes.Add(1) }})))
		for range 1000 {
			synctest.Wait() // the sender of the last request may still hold the connection
			before := writes.Load()
			answered := make(chan error, 1)
			require.True(t, s.StartDelete("/a", -1, func(err error) { answered <- err }))
			require.Equal(t, before+1, writes.Load())
			require.ErrorIs(t, <-answered, zk.ErrNoNode)
		}
	})
}

// Nothing is written to a closed connection, not even a ping.
func TestClose_NothingIsWrittenAfterwards(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var writes atomic.Int32
		c := trial.Dial(t, srv, trial.Through(srv, trial.Pipe{OnWrite: func([]byte) { writes.Add(1) }}))
		time.Sleep(time.Minute)
		require.NoError(t, c.Close())
		before := writes.Load()
		time.Sleep(time.Hour)
		require.Equal(t, before, writes.Load())
	})
}

// hostile are requests that a server ignores once, while it answers later ones.
var hostile = map[zktest.Op]func(ctx context.Context, s *session.Session) error{
	zktest.OpGetData: func(ctx context.Context, s *session.Session) error {
		_, _, err := s.Get(ctx, "/a")
		return err
	},
	zktest.OpGetChildren2: func(ctx context.Context, s *session.Session) error {
		_, err := s.Children(ctx, "/a")
		return err
	},
	zktest.OpDelete: func(ctx context.Context, s *session.Session) error { return s.Delete(ctx, "/a/b", -1) },
}

// TestRequests_ReplyOutOfOrder: replies arrive in the order of the requests. If one does not, the requests before it
// will never be answered, so the connection ends. A read is sent again, and the outcome of a write is unknown.
func TestRequests_ReplyOutOfOrder(t *testing.T) {
	for op, ask := range hostile {
		t.Run(op.String(), func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				for _, path := range []string{"/a", "/a/b"} {
					trial.Create(t, srv, path, "1")
				}
				c := trial.Dial(t, srv)
				s := trial.Live(t, c)
				l := trial.States(t, c)
				srv.Intercept(zktest.Match{Op: op}, zktest.Ignore())
				first := make(chan error, 1)
				go func() { first <- ask(trial.Within(t, time.Minute), s) }()
				synctest.Wait()
				require.NoError(t, s.Sync(trial.Within(t, time.Second), "/"), "it is sent again")
				err := <-first
				if op == zktest.OpDelete {
					require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
				} else {
					require.NoError(t, err)
				}
				synctest.Wait()
				require.Equal(t, []zkrecipes.State{zkrecipes.Connected, zkrecipes.Suspended, zkrecipes.Connected}, l.Values())
				require.ErrorContains(t, c.Status().LastError, "out of order")
			})
		})
	}
}

// TestRequests_SessionMoved: a server that reports this no longer serves the session. The client leaves the connection,
// and repeats the request on the next one.
func TestRequests_SessionMoved(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "1")
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		l := trial.States(t, c)
		srv.Intercept(zktest.Match{Op: zktest.OpSetData}, zktest.Fail(zktest.CodeSessionMoved))
		_, err := s.Set(trial.Within(t, trial.Timeout), "/a", []byte("2"), 0)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []zkrecipes.State{zkrecipes.Connected, zkrecipes.Suspended, zkrecipes.Connected}, l.Values())
		require.ErrorIs(t, c.Status().LastError, zk.ErrSessionMoved)
		require.NoError(t, s.Err())
	})
}

// TestGet_DataBelongToTheCaller: a short reply is read into the buffer that the next one will use.
func TestGet_DataBelongToTheCaller(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		feed := s.Follow("/", func(string) (data, children bool) { return true, false })
		defer feed.Stop()
		var got [][]byte
		want := [][]byte{{}, []byte("one"), []byte("two"), make([]byte, 5000), []byte("four")}
		for i, data := range want {
			path := fmt.Sprintf("/node-%d", i)
			_, err := s.Create(t.Context(), path, data, 0)
			require.NoError(t, err)
			read, _, err := s.Get(t.Context(), path)
			require.NoError(t, err)
			got = append(got, read)
			batch := feed.Batch()
			batch.Get(path, nil)
			require.True(t, batch.Send())
		}
		require.Equal(t, want, got)
		synctest.Wait()
		var fed [][]byte
		for _, news := range feed.Take() {
			if news.Kind == session.Answered {
				fed = append(fed, news.Data)
			}
		}
		require.Equal(t, want, fed)
	})
}
