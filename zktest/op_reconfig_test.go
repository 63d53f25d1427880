package zktest

import (
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

const initialConfig = "server.1=127.0.0.1:2888:3888:participant;127.0.0.1:1\n" +
	"server.2=127.0.0.2:2888:3888:participant;127.0.0.2:1\n" +
	"server.3=127.0.0.3:2888:3888:participant;127.0.0.3:1\nversion=100000000"

func TestReconfig_MembersJoinAndLeave_ErrorsInTheOrderOfTheRealServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(3), WithReconfig(), WithSuperUser("super:secret"))
		r, super := attachFront(t, s.Fronts()[0]), attachFront(t, s.Fronts()[1])
		require.Equal(t, CodeOK, super.do(OpAuth, digestBody("super:secret")))
		f, _ := r.call(OpGetData, watchBody("/zookeeper/config", true))
		require.Equal(t, initialConfig, string(f.body.Bytes()))
		require.EqualValues(t, -1, readStat(&f.body).Version)
		const four = "server.4=10.0.0.4:2888:3888;10.0.0.4:2181"
		for _, c := range []struct {
			name                      string
			joining, leaving, members string
			version                   int64
			want                      Code
		}{
			{"version", "nonsense", proto.Null, proto.Null, 7, CodeBadVersion},
			{"joining", "nonsense", proto.Null, proto.Null, -1, CodeBadArguments},
			{"joining: no client address", "server.4=10.0.0.4:2888:3888", proto.Null, proto.Null, -1, CodeBadArguments},
			{"joining: port", "server.4=10.0.0.4:0:3888;2181", proto.Null, proto.Null, -1, CodeBadArguments},
			{"joining: role", "server.4=10.0.0.4:2888:3888:king;2181", proto.Null, proto.Null, -1, CodeBadArguments},
			{"joining: address twice", four + ",server.5=10.0.0.4:1:3888;9", proto.Null, proto.Null, -1, CodeBadArguments},
			{"leaving", proto.Null, "one", proto.Null, -1, CodeMarshallingError},
			{"leaving: one voter is left", proto.Null, "1,2", proto.Null, -1, CodeBadArguments},
			{"members", proto.Null, proto.Null, "asdf", -1, CodeBadArguments},
			{
				"members: none is here", proto.Null, proto.Null, four + "\nserver.5=10.0.0.5:2888:3888;2181", -1,
				CodeNewConfigNoQuorum,
			},
			{"permission", four, proto.Null, proto.Null, -1, CodeNoAuth},
		} {
			require.Equal(t, c.want, r.do(OpReconfig, reconfigBody(c.joining, c.leaving, c.members, c.version)), c.name)
		}

		f, _ = super.call(OpReconfig, reconfigBody(four+",server.5=10.0.0.5:2888:3888:observer;2181", "3", proto.Null, 1<<32))
		require.Equal(t, CodeOK, f.code)
		want := "server.1=127.0.0.1:2888:3888:participant;127.0.0.1:1\n" +
			"server.2=127.0.0.2:2888:3888:participant;127.0.0.2:1\n" +
			"server.4=10.0.0.4:2888:3888:participant;10.0.0.4:2181\n" +
			"server.5=10.0.0.5:2888:3888:observer;0.0.0.0:2181\n" +
			"version=" + strconv.FormatInt(f.zxid, 16)
		require.Equal(t, want, string(f.body.Bytes()))
		stat := readStat(&f.body)
		require.EqualValues(t, -1, stat.Version)
		require.Equal(t, f.zxid, stat.Mzxid)
		require.Equal(t, event{NodeDataChanged, "/zookeeper/config"}, r.next().event())
		n, _ := s.Node("/zookeeper/config")
		require.Equal(t, want, string(n.Data))
		r.closed() // the leader has left
		super.closed()
		super = attachFront(t, s.Fronts()[2])
		require.Equal(t, CodeOK, super.do(OpAuth, digestBody("super:secret")))
		require.Equal(t, CodeOK, super.do(OpReconfig, reconfigBody(proto.Null, proto.Null, initialConfig, f.zxid)))
	})
}

func TestReconfig_ServerAlone_IsUnimplemented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithReconfig())
		r := attachFront(t, s.Fronts()[0])
		require.Equal(t, CodeUnimplemented, r.do(OpReconfig, reconfigBody(proto.Null, proto.Null, proto.Null, -1)))
	})
}

// TestReconfigure_FollowerLeaves_ServesUntilItStops: a follower that leaves keeps serving. Once stopped, it does not
// start again unless it rejoins. It does not count for the majority.
func TestReconfigure_FollowerLeaves_ServesUntilItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(6), WithReconfig())
		fronts := s.Fronts()
		require.NoError(t, s.Reconfigure(fronts[:3]...))
		require.True(t, fronts[2].Leads())
		r, other := attachFront(t, fronts[0]), attachFront(t, fronts[5])
		require.Equal(t, CodeOK, r.do(OpGetData, watchBody("/zookeeper/config", true)))
		require.NoError(t, s.Reconfigure(fronts[1:4]...))
		require.Equal(t, event{NodeDataChanged, "/zookeeper/config"}, r.next().event())
		require.True(t, fronts[2].Leads())
		r.make("/e", Ephemeral)
		require.Equal(t, CodeOK, attachFront(t, fronts[0]).do(OpExists, watchBody("/e", false)))

		fronts[0].Stop()
		r.closed()
		require.ErrorContains(t, fronts[0].Start(), "start 127.0.0.1:1: it is not a member of the ensemble")
		_, err := s.DialAs("")(t.Context(), "tcp", fronts[0].Addr())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.True(t, s.Exists("/e"))
		fronts[4].Stop()
		require.Equal(t, CodeOK, other.do(OpPing, nil))
		fronts[1].Isolate()
		require.Equal(t, CodeOK, other.do(OpPing, nil))
		fronts[3].Isolate()
		other.closed()
		require.False(t, dialFront(t, fronts[5]).connect(0, 10*time.Second, 0, nil), "one of three members is no majority")
		fronts[1].Rejoin()
		fronts[3].Rejoin()
		require.NoError(t, s.Reconfigure(fronts[:4]...))
		require.NoError(t, fronts[0].Start())
		attachFront(t, fronts[0])
	})
}

// TestReconfigure_LeaderLeaves_AnotherOneLeads: a leader that leaves follows another one. All connections end, after
// the event of the change.
func TestReconfigure_LeaderLeaves_AnotherOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(4), WithReconfig())
		fronts := s.Fronts()
		require.True(t, fronts[3].Leads())
		all := []*raw{attachFront(t, fronts[0]), attachFront(t, fronts[3])}
		for _, r := range all {
			require.Equal(t, CodeOK, r.do(OpGetData, watchBody("/zookeeper/config", true)))
		}
		all[1].make("/e", Ephemeral)
		time.Sleep(9 * time.Second)
		require.NoError(t, s.Reconfigure(fronts[:3]...))
		for _, r := range all {
			require.Equal(t, event{NodeDataChanged, "/zookeeper/config"}, r.next().event())
			r.closed()
		}
		require.True(t, fronts[2].Leads())
		time.Sleep(9 * time.Second)
		again := dialFront(t, fronts[3])
		require.True(t, again.connect(0, 10*time.Second, all[1].session, all[1].passwd), "it has a full timeout again")
		require.True(t, s.Exists("/e"))
	})
}

func TestReconfigure_Errors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithFronts(4), WithReconfig())
		require.Equal(t, CodeBadArguments, s.Reconfigure(s.Fronts()[0]))
		s.Fronts()[0].Stop()
		require.Equal(t, CodeNewConfigNoQuorum, s.Reconfigure(s.Fronts()[:2]...))
		require.Equal(t, CodeReconfigDisabled, Run(t, InMemory(), WithFronts(4)).Reconfigure())
		require.Equal(t, CodeUnimplemented, Run(t, InMemory(), WithReconfig()).Reconfigure())
	})
}
