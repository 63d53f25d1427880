package zktest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

func TestIntercept_DropRequest_CutsBeforeApplying(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		s.Intercept(Match{Op: OpCreate}, DropRequest())
		r.ask(OpCreate, createBody("/a", 0))
		r.closed()
		require.False(t, s.Exists("/a"))
	})
}

func TestIntercept_DropReply_AppliesAndCutsWithoutAnAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		r.run(OpExists, watchBody("/a", true))
		s.Intercept(Match{Op: OpCreate}, DropReply())
		r.ask(OpCreate, createBody("/a", Ephemeral))
		r.closed()
		require.True(t, s.Exists("/a"))
		require.True(t, dialRaw(t, s, "").connect(0, 10*time.Second, r.session, r.passwd))
	})
}

func TestIntercept_Ignore_NeitherAppliesNorAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		s.Intercept(Match{Op: OpCreate}, Ignore())
		r.ask(OpCreate, createBody("/a", 0))
		f, _ := r.call(OpPing, nil)
		require.EqualValues(t, proto.XidPing, f.xid)
		require.False(t, s.Exists("/a"))
	})
}

func TestIntercept_Delay_AppliesLaterAndInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		start := time.Now()
		s.Intercept(Match{Op: OpCreate}, Delay(3*time.Second))
		r.ask(OpCreate, createBody("/a", 0))
		r.ask(OpPing, nil)
		time.Sleep(3*time.Second - 1)
		require.False(t, s.Exists("/a"))
		require.Equal(t, r.xid-1, r.next().xid)
		require.Equal(t, 3*time.Second, time.Since(start))
		require.EqualValues(t, proto.XidPing, r.next().xid)
	})
}

func TestIntercept_HoldReply_AppliesAtOnceAndAnswersLater(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		start := time.Now()
		s.Intercept(Match{Op: OpCreate}, HoldReply(3*time.Second))
		r.run(OpExists, watchBody("/a", true))
		r.ask(OpCreate, createBody("/a", 0))
		r.ask(OpPing, nil)
		require.Equal(t, NodeCreated, r.next().event().kind)
		require.True(t, s.Exists("/a"))
		require.Zero(t, time.Since(start), "the event is not held")
		require.Equal(t, r.xid-1, r.next().xid)
		require.Equal(t, 3*time.Second, time.Since(start))
		require.EqualValues(t, proto.XidPing, r.next().xid)
	})
}

func TestIntercept_UntilChannel_HoldsRequestOrReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		r := attachRaw(t, s, "", 40*time.Second)
		for _, act := range []func(<-chan struct{}) Action{DelayUntil, HoldReplyUntil} {
			ch := make(chan struct{})
			s.Intercept(Match{Op: OpSync}, act(ch))
			start := time.Now()
			r.ask(OpSync, pathBody("/"))
			time.AfterFunc(time.Second, func() { close(ch) })
			r.next()
			require.Equal(t, time.Second, time.Since(start))
		}
	})
}

func TestIntercept_Fail_AnswersTheErrorAndAppliesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		s.Intercept(Match{Op: OpCreate, Path: "^/quota/"}, Fail(CodeQuotaExceeded))
		zxid := s.Zxid()
		require.Equal(t, CodeQuotaExceeded, r.do(OpCreate, createBody("/quota/a", 0)))
		require.Equal(t, zxid, s.Zxid())
		require.Equal(t, CodeNoNode, r.do(OpCreate, createBody("/quota/a", 0)), "once")
	})
}

func TestIntercept_Handshake_CanFailOrLoseItsReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		r := attachRaw(t, s, "a", 10*time.Second)
		s.Intercept(Match{Op: OpConnect}, Fail(CodeSessionExpired))
		require.False(t, dialRaw(t, s, "a").connect(0, time.Second, r.session, r.passwd))
		require.True(t, s.Sessions()[0].Connected, "the session was not touched")
		s.Intercept(Match{Op: OpConnect}, DropReply())
		require.False(t, dialRaw(t, s, "b").connect(0, time.Second, 0, nil))
		require.Len(t, s.Sessions(), 2)
		s.Intercept(Match{Op: OpConnect}, DropRequest())
		require.False(t, dialRaw(t, s, "b").connect(0, time.Second, 0, nil))
		require.Len(t, s.Sessions(), 2)
	})
}

func TestIntercept_BeforeAndAfter_MayUseTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		r, other := attachRaw(t, s, "a", 10*time.Second), attachRaw(t, s, "b", 10*time.Second)
		other.make("/e", Ephemeral)
		s.Intercept(Match{From: Label("a"), Op: OpExists}, Before(func(req Request) {
			require.Equal(t, "/e", req.Path)
			s.Expire(other.session)
		}))
		require.Equal(t, CodeNoNode, r.do(OpExists, watchBody("/e", false)))
		s.Intercept(Match{Op: OpCreate}, After(func(req Request) {
			require.Equal(t, r.session, req.Session)
			require.NoError(t, s.Delete(req.Path))
		}))
		_, code := r.create("/x", Persistent)
		require.Equal(t, CodeOK, code)
		require.False(t, s.Exists("/x"))
	})
}

func TestIntercept_SelectsByClientSessionPathAndCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		a, b := attachRaw(t, s, "a", 10*time.Second), attachRaw(t, s, "b", 10*time.Second)
		rule := s.Intercept(Match{From: Session(b.session), Path: "^/l/", Skip: 1, Times: 2}, Fail(CodeThrottled))
		var got []Code
		for _, r := range []*raw{a, b, b, a, b, b} {
			got = append(got, r.do(OpExists, watchBody("/l/x", false)))
			require.Equal(t, CodeNoNode, r.do(OpExists, watchBody("/other", false)))
		}
		require.Equal(t, []Code{CodeNoNode, CodeNoNode, CodeThrottled, CodeNoNode, CodeThrottled, CodeNoNode}, got)
		require.Equal(t, 2, rule.Hits())
		<-rule.Done()

		forever := s.Intercept(Match{
			Op: OpMulti, Path: "^/m$", Times: -1, Where: func(r Request) bool { return len(r.Paths) == 2 },
		}, Fail(CodeThrottled))
		ops := []part{{OpDelete, versionBody("/n", -1)}, {OpDelete, versionBody("/m", -1)}}
		require.Equal(t, CodeOK, a.do(OpMulti, multiBody(ops[:1]...)))
		for range 3 {
			require.Equal(t, CodeThrottled, a.do(OpMulti, multiBody(ops...)))
		}
		forever.Remove()
		forever.Remove()
		<-forever.Done()
		require.Equal(t, CodeOK, a.do(OpMulti, multiBody(ops...)))
	})
}

// TestWho_NoLabelOrNoSession_IsNotEveryone: a test may ask for the session of a label that no client has.
func TestWho_NoLabelOrNoSession_IsNotEveryone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		a, plain := attachRaw(t, s, "a", 10*time.Second), attachRaw(t, s, "", 10*time.Second)
		require.Zero(t, s.Cut(Session(s.SessionOf("typo"))))
		s.Stall(Session(0), Both)
		s.Intercept(Match{From: Session(0), Op: OpConnect}, DropRequest())
		attachRaw(t, s, "b", 10*time.Second)
		require.Equal(t, CodeOK, a.do(OpPing, nil))
		require.Equal(t, 1, s.Cut(Label("")))
		plain.closed()
		require.Equal(t, CodeOK, a.do(OpPing, nil))
	})
}

// TestFault_ThatCouldNotAct_PanicsWhereItIsMade: a request would meet it elsewhere, or none would.
func TestFault_ThatCouldNotAct_PanicsWhereItIsMade(t *testing.T) {
	for want, do := range map[string]func(){
		"zktest.Fail: CodeOK is no error: want another code, or Proceed": func() { Fail(CodeOK) },
		"zktest.Before: the function is nil":                             func() { Before(nil) },
		"zktest.After: the function is nil":                              func() { After(nil) },
		"zktest.DelayUntil: the channel is nil":                          func() { DelayUntil(nil) },
		"zktest.HoldReplyUntil: the channel is nil":                      func() { HoldReplyUntil(nil) },
		"zktest.Refuse: a new connection has no session: want Everyone or a Label": func() {
			new(Server).Refuse(Session(1))
		},
	} {
		require.PanicsWithValue(t, want, do)
	}
}

func TestIntercept_Forbid_IsAViolation(t *testing.T) {
	var found []error
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), OnViolation(func(err error) { found = append(found, err) }))
		r := attachRaw(t, s, "", 10*time.Second)
		s.Intercept(Match{Op: OpDelete}, Forbid())
		require.Equal(t, CodeNoNode, r.do(OpDelete, versionBody("/a", -1)))
		require.Len(t, s.Violations(), 1)
	})
	require.Len(t, found, 1)
	require.ErrorContains(t, found[0], "delete /a")
}

func TestStall_ToServer_EventsStillArriveUntilTheSessionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := Run(t, InMemory())
		r := attachRaw(t, s, "a", 10*time.Second)
		r.run(OpExists, watchBody("/x", true))
		s.Stall(Label("a"), ToServer)
		r.ask(OpCreate, createBody("/mine", 0))
		_, err := s.Create("/x", nil, Persistent)
		require.NoError(t, err)
		require.Equal(t, event{NodeCreated, "/x"}, r.next().event())
		r.closed() // by the expiry
		require.Equal(t, 12*time.Second, time.Since(start))
		require.False(t, s.Exists("/mine"))
	})
}

func TestStall_FromServer_RequestsAreAppliedAndAnswersComeAfterHealing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		r := attachRaw(t, s, "a", 10*time.Second)
		s.Stall(Session(r.session), FromServer)
		r.ask(OpCreate, createBody("/mine", 0))
		time.Sleep(5 * time.Second)
		require.True(t, s.Exists("/mine"))
		s.Heal(Session(r.session))
		require.Equal(t, r.xid, r.next().xid)
	})
}

// TestEnd_WhileQueuedBytesWait_TheyArriveHoweverLongThatTakes: only a client that does not read loses them.
func TestEnd_WhileQueuedBytesWait_TheyArriveHoweverLongThatTakes(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(*Server) }{
		"stalled": {
			func(s *Server) { s.Stall(Everyone, FromServer) },
			func(s *Server) { s.Heal(Everyone) },
		},
		"frozen": {(*Server).Freeze, (*Server).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *Server, r *raw) {
				r.run(OpExists, watchBody("/x", true))
				fault.begin(s)
				_, err := s.Create("/x", nil, Persistent)
				require.NoError(t, err)
				synctest.Wait()
				require.True(t, s.Expire(r.session))
				time.Sleep(time.Minute)
				fault.end(s)
				require.Equal(t, event{NodeCreated, "/x"}, r.next().event())
				r.closed()
			})
		})
	}
	t.Run("held", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *Server, r *raw) {
			s.Intercept(Match{Op: OpSync}, HoldReply(time.Minute))
			r.ask(OpSync, pathBody("/"))
			synctest.Wait()
			r.ask(OpCloseSession, nil)
			require.Equal(t, r.xid-1, r.next().xid)
			require.Equal(t, r.xid, r.next().xid)
			r.closed()
		})
	})
}

func TestStall_Both_EvenTheEndOfTheConnectionIsNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		r := attachRaw(t, s, "a", 10*time.Second)
		gone := attachRaw(t, s, "a", 10*time.Second)
		s.Stall(Label("a"), Both)
		require.NoError(t, gone.nc.Close())
		require.NoError(t, r.nc.SetReadDeadline(time.Now().Add(time.Minute)))
		start := time.Now()
		_, err := r.nc.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(start))
		require.Empty(t, s.Sessions(), "expired meanwhile")
		s.Heal(Everyone)
		r.closed()
	})
}

// TestStall_ToServer_NoWriteReportsThatTheClientIsGone: the packet that would report it is lost, too.
func TestStall_ToServer_NoWriteReportsThatTheClientIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		r.run(OpExists, watchBody("/x", true))
		s.Stall(Everyone, ToServer)
		require.NoError(t, r.nc.Close())
		_, err := s.Create("/x", nil, Persistent) // the event is written to nobody
		require.NoError(t, err)
		synctest.Wait()
		require.True(t, s.Sessions()[0].Connected)
		s.Heal(Everyone)
		synctest.Wait()
		require.False(t, s.Sessions()[0].Connected)

		gone := attachRaw(t, s, "", 10*time.Second)
		gone.run(OpGetData, watchBody("/x", true))
		s.Stall(Everyone, ToServer)
		require.NoError(t, gone.nc.Close())
		require.NoError(t, s.Set("/x", nil))
		time.Sleep(time.Minute)
		require.Empty(t, s.Sessions(), "the timeout ends the session")
	})
}

func TestStall_Dialing_WaitsForHealOrContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		s.Stall(Label("a"), Both)
		start := time.Now()
		_, err := s.DialTimeoutAs("a")("tcp", s.Addr(), 3*time.Second)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(start))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.DialAs("a")(ctx, "tcp", s.Addr())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		attachRaw(t, s, "b", time.Second)
		time.AfterFunc(time.Second, func() { s.Heal(Label("a")) })
		attachRaw(t, s, "a", time.Second)
		require.Equal(t, 5*time.Second, time.Since(start))
	})
}

func TestDial_ContextIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		_, err := s.Dial(ctx, "tcp", s.Addr())
		require.ErrorIs(t, err, why)
		require.Zero(t, s.Connections())
	})
}

func TestDial_ContextIsNil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		for _, dial := range []func(ctx context.Context, network, addr string) (net.Conn, error){
			s.Dial, s.DialAs("a"), s.Fronts()[0].DialAs("a"),
		} {
			require.PanicsWithValue(t, "zktest.Dial: the context is nil", func() {
				_, _ = dial(nil, "tcp", s.Addr())
			})
		}
	})
}

func TestCut_ClosesOnlyWhoIsMeant_AndSessionsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		a, b := attachRaw(t, s, "a", 10*time.Second), attachRaw(t, s, "b", 10*time.Second)
		require.Equal(t, 1, s.Cut(Label("a")))
		a.closed()
		require.Equal(t, CodeOK, b.do(OpPing, nil))
		require.Equal(t, 1, s.CutAll())
		b.closed()
		require.Len(t, s.Sessions(), 2)
		require.Zero(t, s.Connections())
	})
}

// TestCut_OnASocket_IsNoReset: as when a process ends, clients read the end of the stream.
func TestCut_OnASocket_IsNoReset(t *testing.T) {
	s := Run(t)
	r := attachTCP(t, s.Addr())
	require.Equal(t, 1, s.Cut(Everyone))
	_, err := r.recv()
	require.ErrorIs(t, err, io.EOF)
}

func TestRefuse_TurnsAwayUntilAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		s.Refuse(Label("a"))
		_, err := s.DialAs("a")(t.Context(), "tcp", s.Addr())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		attachRaw(t, s, "b", time.Second)
		s.Accept(Label("a"))
		attachRaw(t, s, "a", time.Second)
	})
}

func TestLoseWatch_NoEventComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		r := attachRaw(t, s, "a", 10*time.Second)
		r.run(OpExists, watchBody("/x", true))
		require.Zero(t, s.LoseWatch(Label("b"), "/x"))
		require.Equal(t, 1, s.LoseWatch(Label("a"), "/x"))
		_, events := r.call(OpCreate, createBody("/x", 0))
		require.Empty(t, events)
	})
}

func TestSendEvent_ComesWithoutACause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		r := attachRaw(t, s, "a", 10*time.Second)
		require.Equal(t, 1, s.SendEvent(Label("a"), NodeDeleted, "/x"))
		require.Equal(t, event{NodeDeleted, "/x"}, r.next().event())
	})
}

func TestOperator_ActsOutsideOfAnySession(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		r.make("/p", Persistent)
		r.make("/p/e", Ephemeral)
		r.run(OpGetData, watchBody("/p/e", true))
		require.ErrorIs(t, s.Delete("/p"), CodeNotEmpty)
		require.NoError(t, s.DeleteAll("/p"))
		require.Equal(t, NodeDeleted, r.next().event().kind)
		require.Empty(t, s.Ephemerals(r.session))
		path, err := s.Create("/s-", []byte("x"), PersistentSequential)
		require.NoError(t, err)
		require.Equal(t, "/s-0000000001", path)
		_, err = s.Create("/e", nil, Ephemeral)
		require.ErrorIs(t, err, CodeBadArguments)
		require.ErrorIs(t, s.Set("/none", nil), CodeNoNode)
	})
}

func TestOperator_Errors_NameTheOperationAndThePath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(3))
		create := func(path string, mode Mode) error { _, err := s.Create(path, nil, mode); return err }
		require.NoError(t, create("/a", Persistent))
		for want, err := range map[string]error{
			"zktest: create /a: node exists (-110)":                                   create("/a", Persistent),
			"zktest: create /e: bad arguments (-8): want a mode without a session":    create("/e", Ephemeral),
			"zktest: setData /none: no node (-101)":                                   s.Set("/none", nil),
			"zktest: delete : bad arguments (-8)":                                     s.DeleteAll(""),
			"zktest: set the version of /none: no node (-101)":                        s.SetVersion("/none", 1),
			"zktest: set the version of : no node (-101)":                             s.SetVersion("", 1),
			"zktest: set the sequence number of /none: no node (-101)":                s.SetCversion("/none", 1),
			"reconfig /zookeeper/config: reconfig disabled (-123): want WithReconfig": s.Reconfigure(s.Fronts()...),
		} {
			require.ErrorContains(t, err, want)
		}
		require.True(t, s.Exists("/a"))
		require.False(t, s.Exists(""))
		require.Empty(t, s.Children(""))
		require.Empty(t, s.Tree(""))
	})
}

func TestDeleteAll_OfTheRoot_LeavesWhatNoClientCanDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		for _, path := range []string{"/a", "/a/b", "/zookeeper/quota/a"} {
			_, err := s.Create(path, nil, Persistent)
			require.NoError(t, err)
		}
		require.NoError(t, s.DeleteAll("/"))
		require.Len(t, s.Tree("/"), 1)
		require.Len(t, s.Tree("/zookeeper"), 3)
		require.NoError(t, s.DeleteAll("/zookeeper"))
		require.ErrorIs(t, s.DeleteAll("/none"), CodeNoNode)
	})
}

func TestClose_EndsEverythingAndIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Start(InMemory())
		require.NoError(t, err)
		stalled, held := attachRaw(t, s, "a", 10*time.Second), attachRaw(t, s, "b", 10*time.Second)
		s.Stall(Label("a"), Both)
		s.Intercept(Match{Op: OpSync}, HoldReply(time.Hour))
		held.ask(OpSync, pathBody("/"))
		s.Intercept(Match{Op: OpExists}, Delay(time.Hour))
		held.ask(OpExists, watchBody("/", false))
		s.Freeze()
		stalled.ask(OpPing, nil)
		synctest.Wait()
		start := time.Now()
		s.Close()
		s.Close()
		require.Zero(t, time.Since(start))
		stalled.closed()
		_, err = s.Dial(t.Context(), "tcp", s.Addr())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.Zero(t, s.CutAll())
	})
}

func TestExpire_WhileAReplyIsHeld_ClosesAtOnceWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		for _, act := range []Action{HoldReply(time.Hour), Delay(time.Hour)} {
			r := attachRaw(t, s, "a", 10*time.Second)
			s.Intercept(Match{Op: OpSync}, act)
			start := time.Now()
			r.ask(OpSync, pathBody("/"))
			synctest.Wait()
			require.True(t, s.Expire(r.session))
			r.closed()
			require.Zero(t, time.Since(start))
		}
	})
}

func TestRequest_String_NamesWhatThereIs(t *testing.T) {
	for want, r := range map[string]Request{
		`create /a of "x" in session 0x1`:    {Client: "x", Session: 1, Op: OpCreate, Path: "/a"},
		`multi [/a /b] of "" in session 0x1`: {Session: 1, Op: OpMulti, Paths: []string{"/a", "/b"}},
		`closeSession of "x" in session 0x1`: {Client: "x", Session: 1, Op: OpCloseSession},
		`sasl of "" in session 0x1`:          {Session: 1, Op: OpSASL},
	} {
		require.Equal(t, want, r.String())
	}
}
