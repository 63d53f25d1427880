package zktest

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// dialFront opens a connection to a front without a handshake.
func dialFront(t *testing.T, f *Front) *raw {
	t.Helper()
	nc, err := f.s.DialAs("")(t.Context(), "tcp", f.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	return newRaw(t, nc)
}

func attachFront(t *testing.T, f *Front) *raw {
	t.Helper()
	r := dialFront(t, f)
	require.True(t, r.connect(0, 10*time.Second, 0, nil))
	return r
}

func TestFronts_ShareOneTreeAndItsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(3))
		require.Equal(t, "127.0.0.1:1,127.0.0.2:1,127.0.0.3:1", s.Addrs())
		a, b := attachFront(t, s.Fronts()[0]), attachFront(t, s.Fronts()[1])
		require.Equal(t, CodeNoNode, b.do(OpExists, watchBody("/a", true)))
		a.make("/a", Ephemeral)
		require.Equal(t, event{NodeCreated, "/a"}, b.next().event())
		require.Equal(t, CodeOK, b.do(OpExists, watchBody("/a", false)))

		moved := dialFront(t, s.Fronts()[2])
		require.True(t, moved.connect(0, 10*time.Second, a.session, a.passwd))
		a.closed()
		require.True(t, s.Exists("/a"))
	})
}

// TestFronts_WrongPassword_EndsOnlyAConnectionAtTheSameFront: a server knows its own connections, not those of the
// others.
func TestFronts_WrongPassword_EndsOnlyAConnectionAtTheSameFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(3))
		a := attachFront(t, s.Fronts()[0])
		require.False(t, dialFront(t, s.Fronts()[1]).connect(0, 10*time.Second, a.session, make([]byte, 16)))
		require.Equal(t, CodeOK, a.do(OpPing, nil))
		require.False(t, dialFront(t, s.Fronts()[0]).connect(0, 10*time.Second, a.session, make([]byte, 16)))
		a.closed()
	})
}

func TestFronts_OnSockets_ListenEachOnItsPort_AndStopAlone(t *testing.T) {
	s := Run(t, WithFronts(3))
	addrs := strings.Split(s.Addrs(), ",")
	require.Len(t, addrs, 3)
	f := s.Fronts()[0]
	attachTCP(t, addrs[0])
	other := attachTCP(t, addrs[1])
	f.Stop()
	_, err := net.Dial("tcp", addrs[0])
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Equal(t, CodeOK, other.do(OpPing, nil))
	require.NoError(t, f.Start())
	require.Equal(t, addrs[0], f.Addr())
	require.Equal(t, CodeOK, attachTCP(t, addrs[0]).do(OpPing, nil))
	require.Contains(t, askWordAt(t, addrs[2], "srvr"), "\nMode: leader\n")
	require.Contains(t, askWordAt(t, addrs[0], "mntr"), "zk_server_state\tfollower\n")
}

func TestFronts_ListenAgain_AfterStopListening(t *testing.T) {
	s := Run(t, WithFronts(3))
	s.StopListening()
	require.NoError(t, s.Listen(s.Addr()))
	for _, f := range s.Fronts()[1:] {
		f.Stop()
		require.NoError(t, f.Start())
	}
	for addr := range strings.SplitSeq(s.Addrs(), ",") {
		require.Equal(t, CodeOK, attachTCP(t, addr).do(OpPing, nil))
	}
}

func TestFront_Start_ListensAgain_IfItEverDid(t *testing.T) {
	s := Run(t, InMemory())
	require.NoError(t, s.Listen("127.0.0.1:0"))
	s.Fronts()[0].Stop()
	require.NoError(t, s.Fronts()[0].Start())
	require.Equal(t, CodeOK, attachTCP(t, s.Addr()).do(OpPing, nil))
}

// A standalone server has no epochs.
func TestFront_Alone_KeepsItsZxid(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, _ *raw) {
		zxid := s.Zxid()
		s.Fronts()[0].Stop()
		require.NoError(t, s.Fronts()[0].Start())
		s.Fronts()[0].Isolate()
		s.Fronts()[0].Rejoin()
		require.Equal(t, zxid, s.Zxid())
	})
}

func TestFronts_LeaderGoes_AllConnectionsEnd_AndSessionsGetAFullTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(3))
		fronts := s.Fronts()
		require.True(t, fronts[2].Leads())
		a := attachFront(t, fronts[0])
		a.make("/e", Ephemeral)
		time.Sleep(9 * time.Second)
		fronts[2].Stop()
		a.closed()
		require.True(t, fronts[1].Leads())
		_, err := s.DialAs("")(t.Context(), "tcp", fronts[2].Addr())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		time.Sleep(9 * time.Second)
		require.True(t, s.Exists("/e"))
		again := dialFront(t, fronts[1])
		require.True(t, again.connect(0, 10*time.Second, a.session, a.passwd))
		require.NoError(t, fronts[2].Start())
		require.True(t, fronts[1].Leads(), "a leader stays the leader")
		require.Equal(t, CodeOK, again.do(OpPing, nil))
	})
}

func TestFronts_NoMajority_NothingIsServed_AndClocksStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(3))
		fronts := s.Fronts()
		a := attachFront(t, fronts[0])
		a.make("/e", Ephemeral)
		fronts[1].Stop()
		require.Equal(t, CodeOK, a.do(OpPing, nil))
		fronts[2].Isolate()
		a.closed()
		require.False(t, dialFront(t, fronts[0]).connect(0, 10*time.Second, 0, nil))
		require.False(t, dialFront(t, fronts[2]).connect(0, 10*time.Second, 0, nil))
		time.Sleep(time.Hour)
		require.True(t, s.Exists("/e"))
		fronts[2].Rejoin()
		again := dialFront(t, fronts[2])
		require.True(t, again.connect(0, 10*time.Second, a.session, a.passwd))
		time.Sleep(12 * time.Second)
		synctest.Wait()
		require.False(t, s.Exists("/e"))
	})
}

func TestFront_CutOff_InReadOnlyMode_ServesReadsOfWhatItKnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(3), WithReadOnlyMode())
		f, other := s.Fronts()[0], attachFront(t, s.Fronts()[1])
		other.make("/before", Persistent)
		f.Isolate()
		other.make("/after", Persistent)
		require.False(t, dialFront(t, f).connect(0, 10*time.Second, 0, nil), "it did not say that it reads only")

		r := dialFront(t, f)
		require.True(t, r.connectReadOnly())
		require.True(t, r.readOnly)
		require.Equal(t, CodeOK, r.do(OpExists, watchBody("/before", true)))
		require.Equal(t, CodeNoNode, r.do(OpExists, watchBody("/after", true)))
		zxid := s.Zxid()
		_, code := r.create("/x", Persistent)
		require.Equal(t, CodeNotReadOnly, code)
		require.Equal(t, CodeNotReadOnly, r.do(OpSync, pathBody("/")))
		require.Equal(t, zxid, s.Zxid())
		require.Len(t, s.Sessions(), 2)

		f.Rejoin()
		r.closed()
		require.Len(t, s.Sessions(), 1, "a session of a read-only server ends with it")
		fresh := dialFront(t, f)
		require.True(t, fresh.connectReadOnly())
		require.False(t, fresh.readOnly)
		require.Equal(t, CodeOK, fresh.do(OpExists, watchBody("/after", false)))
	})
}

// Source: ReadOnlyZooKeeperServer.validateSession.
func TestFront_InReadOnlyMode_RefusesSessionsOfTheMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(3), WithReadOnlyMode())
		f, other := s.Fronts()[0], attachFront(t, s.Fronts()[1])
		f.Isolate()
		r := dialFront(t, f)
		r.modern = true
		require.False(t, r.connect(0, 10*time.Second, other.session, other.passwd))
		r.closed()
		require.Equal(t, CodeOK, other.do(OpPing, nil))

		local, again := dialFront(t, f), dialFront(t, f)
		require.True(t, local.connectReadOnly())
		again.modern = true
		require.True(t, again.connect(0, 10*time.Second, local.session, local.passwd))
		local.closed()
		require.Equal(t, CodeUnimplemented, again.do(OpCheck, versionBody("/", -1)), "before the mode is looked at")
	})
}

// Source: LearnerZooKeeperServer.revalidateSession; each server has a LocalSessionTracker of its own.
func TestFront_InReadOnlyMode_ItsSessionsAreUnknownElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(5), WithReadOnlyMode())
		fronts := s.Fronts()
		fronts[0].Isolate()
		local := dialFront(t, fronts[0])
		require.True(t, local.connectReadOnly())
		resume := func(f *Front) *raw {
			r := dialFront(t, f)
			r.modern, r.timeout = true, time.Hour
			require.False(t, r.connect(0, 10*time.Second, local.session, local.passwd))
			require.Zero(t, r.timeout, "answered, as for a session that has expired")
			return r
		}
		resume(fronts[1]).closed()
		fronts[1].Isolate()
		resume(fronts[1]).closed()
		require.Equal(t, CodeOK, local.do(OpPing, nil))
		require.True(t, s.Sessions()[0].Connected)
	})
}

func TestServer_Alone_ReadOnlyMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithReadOnlyMode())
		s.Fronts()[0].Isolate()
		r := dialRaw(t, s, "")
		require.True(t, r.connectReadOnly())
		require.Equal(t, CodeNotReadOnly, r.do(OpDelete, versionBody("/a", -1)))
		require.Equal(t, CodeOK, r.do(OpCloseSession, nil))
		s.Fronts()[0].Rejoin()
		attachRaw(t, s, "", 10*time.Second).make("/a", Persistent)
	})
}

func TestLag_ReadsAreOld_EventsAndRepliesToWritesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(3))
		f := s.Fronts()[0]
		slow, quick := attachFront(t, f), attachFront(t, s.Fronts()[1])
		quick.make("/a", Persistent)
		require.Equal(t, CodeOK, slow.do(OpGetData, watchBody("/a", true)))
		require.Equal(t, CodeOK, slow.do(OpGetChildren, watchBody("/a", true)))
		f.Lag()
		require.Equal(t, CodeOK, quick.do(OpSetData, setBody("/a", []byte("new"), -1)))
		quick.make("/a/x", Persistent)
		quick.make("/a/s-", PersistentSequential)
		reply, events := slow.call(OpGetData, watchBody("/a", false))
		require.Empty(t, events)
		require.Empty(t, reply.body.Bytes())
		require.Equal(t, s.Zxid()-3, reply.zxid)
		require.Equal(t, CodeNoNode, slow.do(OpExists, watchBody("/a/x", false)))

		slow.ask(OpCreate, createBody("/a/y", Persistent))
		slow.ask(OpGetData, watchBody("/a", false))
		synctest.Wait()
		require.True(t, s.Exists("/a/y"), "the leader has applied it")
		require.False(t, dialFront(t, f).connect(s.Zxid(), 10*time.Second, 0, nil), "the client has seen more")
		f.CatchUp()
		require.Equal(t, event{NodeDataChanged, "/a"}, slow.next().event())
		require.Equal(t, event{NodeChildrenChanged, "/a"}, slow.next().event())
		require.Equal(t, s.Zxid(), slow.next().zxid)
		f2 := slow.next()
		require.Equal(t, "new", string(f2.body.Bytes()))
		st := readStat(&f2.body)
		n, _ := s.Node("/a")
		require.Equal(t, n.Stat, st)
	})
}

func TestLag_GetEphemerals_IsARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(3))
		f := s.Fronts()[0]
		slow, quick := attachFront(t, f), attachFront(t, s.Fronts()[1])
		for _, path := range []string{"/a", "/b", "/c", "/d"} {
			slow.make(path, Ephemeral)
		}
		quick.make("/quick", Ephemeral)
		list := func() []string {
			reply, _ := slow.call(OpGetEphemerals, pathBody("/"))
			return reply.body.Strs()
		}
		f.Lag()
		require.NoError(t, s.Delete("/b"))
		require.Equal(t, []string{"/a", "/b", "/c", "/d"}, list())
		slow.ask(OpCreate, createBody("/e", Ephemeral))
		synctest.Wait()
		f.CatchUp()
		require.Equal(t, CodeOK, slow.next().code)
		require.Equal(t, []string{"/a", "/c", "/d", "/e"}, list())
	})
}

func TestLag_EndsWhenTheFrontJoinsALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(3))
		f := s.Fronts()[0]
		for name, join := range map[string]func(){
			"a new leader": s.Fronts()[2].Stop,
			"itself anew": func() {
				f.Isolate()
				f.Rejoin()
			},
		} {
			f.Lag()
			_, err := s.Create("/s-", nil, PersistentSequential)
			require.NoError(t, err)
			join()
			r := attachFront(t, f)
			reply, _ := r.call(OpGetChildren2, watchBody("/", false))
			require.Equal(t, s.Zxid(), reply.zxid, name)
		}
	})
}

func TestLag_SyncWaitsUntilTheFrontHasCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(3))
		slow := attachFront(t, s.Fronts()[0])
		s.Fronts()[0].Lag()
		_, err := s.Create("/a", nil, Persistent)
		require.NoError(t, err)
		slow.ask(OpSync, pathBody("/"))
		slow.ask(OpExists, watchBody("/a", false))
		time.Sleep(time.Second)
		s.Fronts()[0].CatchUp()
		slow.next()
		require.Equal(t, CodeOK, slow.next().code)
	})
}
