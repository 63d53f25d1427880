package zktest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

func TestConnect_TimeoutOutOfRange_IsClamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		require.Equal(t, 4*time.Second, attachRaw(t, s, "", time.Second).timeout)
		require.Equal(t, 11*time.Second, attachRaw(t, s, "", 11*time.Second).timeout)
		require.Equal(t, 40*time.Second, attachRaw(t, s, "", time.Hour).timeout)
	})
}

func TestConnect_ClientThatHasSeenMore_IsTurnedAwayWithoutAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		attachRaw(t, s, "", 10*time.Second)
		require.False(t, dialRaw(t, s, "").connect(s.Zxid()+1, 10*time.Second, 0, nil))
		require.Len(t, s.Sessions(), 1)
		s.SetZxid(1 << 40)
		require.True(t, dialRaw(t, s, "").connect(1<<40, 10*time.Second, 0, nil))
	})
}

func TestReattach_WithThePassword_KeepsSessionAndTakesNoZxid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		a := attachRaw(t, s, "", 10*time.Second)
		_, code := a.create("/e", Ephemeral)
		require.Equal(t, CodeOK, code)
		before := s.Zxid()
		b := dialRaw(t, s, "")
		require.True(t, b.connect(0, 20*time.Second, a.session, a.passwd))
		require.Equal(t, a.session, b.session)
		require.Equal(t, before, s.Zxid())
		require.Equal(t, 20*time.Second, s.Sessions()[0].Timeout)
		a.closed()
		require.True(t, s.Exists("/e"))
	})
}

func TestReattach_WrongPassword_KicksTheHealthyConnectionAndLeavesTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		a := attachRaw(t, s, "", 10*time.Second)
		b := dialRaw(t, s, "")
		require.False(t, b.connect(0, 10*time.Second, a.session, make([]byte, 16)))
		b.closed()
		a.closed()
		require.Len(t, s.Sessions(), 1)
		require.False(t, s.Sessions()[0].Connected)
		require.True(t, dialRaw(t, s, "").connect(0, 10*time.Second, a.session, a.passwd))
	})
}

func TestReattach_ExpiredSession_GetsAnEmptyReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		a := attachRaw(t, s, "", 10*time.Second)
		require.True(t, s.Expire(a.session))
		require.False(t, s.Expire(a.session))
		b := dialRaw(t, s, "")
		require.False(t, b.connect(0, 10*time.Second, a.session, a.passwd))
		require.Zero(t, b.timeout)
		b.closed()
	})
}

// TestExpiry_HappensOnTheFirstTickAfterTheTimeout: the window is (timeout, timeout+tick], on a multiple of the tick
// counted from the server's start.
func TestExpiry_HappensOnTheFirstTickAfterTheTimeout(t *testing.T) {
	for _, c := range []struct{ heard, timeout, gone time.Duration }{
		{0, 4 * time.Second, 6 * time.Second},
		{0, 5 * time.Second, 6 * time.Second},
		{time.Millisecond, 4 * time.Second, 6 * time.Second},
		{1999 * time.Millisecond, 4 * time.Second, 6 * time.Second},
		{2 * time.Second, 4 * time.Second, 8 * time.Second},
		{1999 * time.Millisecond, 4001 * time.Millisecond, 8 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			s := Run(t, InMemory())
			r := attachRaw(t, s, "", c.timeout)
			time.Sleep(c.heard)
			require.Equal(t, CodeOK, r.do(OpPing, nil))
			require.Equal(t, start.Add(c.gone), s.Sessions()[0].Expires)
			time.Sleep(c.gone - c.heard - 1)
			synctest.Wait()
			require.Len(t, s.Sessions(), 1)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			require.Empty(t, s.Sessions())
			r.closed()
		})
	}
}

func TestExpiry_DeletesAllNodesInOneTransactionThenClosesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		a, b := attachRaw(t, s, "a", 4*time.Second), attachRaw(t, s, "b", 40*time.Second)
		for _, path := range []string{"/x", "/y", "/z"} {
			_, code := a.create(path, Ephemeral)
			require.Equal(t, CodeOK, code)
			require.Equal(t, CodeOK, b.do(OpExists, watchBody(path, true)))
		}
		time.Sleep(6 * time.Second)
		for range 3 {
			require.Equal(t, NodeDeleted, b.next().event().kind)
		}
		a.closed()
		last := s.History()[len(s.History())-1]
		require.Equal(t, OpCloseSession, last.Op)
		require.Equal(t, a.session, last.Session)
		require.Len(t, last.Changes, 3)
		require.Equal(t, s.Zxid(), last.Zxid)
	})
}

func TestCloseSession_RepliesThenCloses(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		r.make("/e", Ephemeral)
		require.Equal(t, CodeOK, r.do(OpExists, watchBody("/e", true)))
		f, events := r.call(OpCloseSession, nil)
		require.Equal(t, CodeOK, f.code)
		require.Equal(t, s.Zxid(), f.zxid)
		require.Equal(t, []event{{NodeDeleted, "/e"}}, events)
		r.closed()
		require.Empty(t, s.Sessions())
	})
}

func TestUp_AfterLongerThanTheTimeout_ReArmsEverySession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		a := attachRaw(t, s, "", 10*time.Second)
		a.make("/e", Ephemeral)
		s.Down()
		a.closed()
		_, err := s.Dial(t.Context(), "tcp", s.Addr())
		require.ErrorContains(t, err, "refused")
		time.Sleep(time.Minute)
		require.True(t, s.Exists("/e"))
		s.Up()
		time.Sleep(12*time.Second - 1)
		require.True(t, s.Exists("/e"))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.False(t, s.Exists("/e"))
	})
}

// TestRenewal_GivesTheTimeoutThatTheSessionWasCreatedWith: a server that starts, or a new leader, knows only that one,
// from the transaction. It applies until a client resumes the session.
//
// Source: the constructor of SessionTrackerImpl; only commitSession writes sessionsWithTimeout.
func TestRenewal_GivesTheTimeoutThatTheSessionWasCreatedWith(t *testing.T) {
	for name, renew := range map[string]func(s *Server){
		"restart":      (*Server).Restart,
		"new leader":   func(s *Server) { s.Fronts()[2].Stop() },
		"new majority": func(s *Server) { s.Fronts()[2].Stop(); s.Fronts()[1].Stop(); _ = s.Fronts()[1].Start() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := Run(t, InMemory(), WithFronts(3))
				a, b := attachRaw(t, s, "a", 4*time.Second), attachRaw(t, s, "b", 4*time.Second)
				resume := func(r *raw) {
					require.True(t, dialRaw(t, s, "").connect(0, 40*time.Second, r.session, r.passwd))
				}
				resume(a)
				resume(b)
				renew(s)
				resume(b)
				time.Sleep(6 * time.Second)
				synctest.Wait()
				require.Len(t, s.Sessions(), 1)
				require.Equal(t, b.session, s.Sessions()[0].ID)
				require.Equal(t, 40*time.Second, s.Sessions()[0].Timeout)
			})
		})
	}
}

func TestFreeze_HoldsRequestsAndClocks_AndThawServesRequestsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		a := attachRaw(t, s, "", 10*time.Second)
		s.Freeze()
		a.ask(OpPing, nil)
		fresh := dialRaw(t, s, "")
		time.Sleep(time.Minute)
		require.Len(t, s.Sessions(), 1)
		s.Thaw()
		require.EqualValues(t, proto.XidPing, a.next().xid)
		require.True(t, fresh.connect(0, 10*time.Second, 0, nil))
		require.Len(t, s.Sessions(), 2)
		time.Sleep(12 * time.Second)
		synctest.Wait()
		require.Empty(t, s.Sessions())
	})
}

// TestFreeze_WhileARequestWaits_ItIsNotApplied: whatever the request waits for may end while the server is frozen.
func TestFreeze_WhileARequestWaits_ItIsNotApplied(t *testing.T) {
	for name, wait := range map[string]func(s *Server, elapsed <-chan struct{}){
		"delay": func(s *Server, _ <-chan struct{}) {
			s.Intercept(Match{Op: OpCreate}, Delay(time.Second))
		},
		"channel": func(s *Server, elapsed <-chan struct{}) {
			s.Intercept(Match{Op: OpCreate}, DelayUntil(elapsed))
		},
		"function": func(s *Server, elapsed <-chan struct{}) {
			s.Intercept(Match{Op: OpCreate}, Before(func(Request) { <-elapsed }))
		},
		"front that is behind": func(s *Server, _ <-chan struct{}) {
			s.Fronts()[0].Lag()
			time.AfterFunc(time.Second, s.Fronts()[0].CatchUp)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *Server, r *raw) {
				elapsed := make(chan struct{})
				time.AfterFunc(time.Second, func() { close(elapsed) })
				wait(s, elapsed)
				r.ask(OpSync, pathBody("/"))
				r.ask(OpCreate, createBody("/a", Persistent))
				synctest.Wait()
				s.Freeze()
				time.Sleep(time.Minute)
				require.False(t, s.Exists("/a"))
				s.Thaw()
				r.next()
				require.Equal(t, CodeOK, r.next().code)
			})
		})
	}
}

// TestEnd_LongerThanServersRead: the transaction that ends a session contains the paths of all its ephemeral nodes.
// Servers can still read it at twice the buffer.
func TestEnd_LongerThanServersRead(t *testing.T) {
	for name, end := range map[string]func(r *raw){
		"closed":  func(r *raw) { _ = r.do(OpCloseSession, nil) },
		"expired": func(*raw) { time.Sleep(time.Minute) },
	} {
		for length, violations := range map[int]int{180: 0, 181: 1} {
			t.Run(fmt.Sprint(name, length), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var told []error
					s := Run(t, InMemory(), WithMaxBuffer((48+3*(4+180))/2), OnViolation(func(err error) { told = append(told, err) }))
					r := attachRaw(t, s, "", 10*time.Second)
					for i, length := range []int{180, 180, length} {
						require.Equal(t, CodeOK, r.do(OpCreate, createBody("/"+strings.Repeat(fmt.Sprint(i), length-1), Ephemeral)))
					}
					end(r)
					synctest.Wait()
					require.Empty(t, s.Sessions())
					require.Len(t, told, violations)
				})
			})
		}
	}
}
