package servers_test

import (
	"io"
	"log"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// member is a server of an ensemble, real or not.
type member interface{ Addr() string }

// as returns a member as its concrete type.
func as[M member](m member) M {
	concrete, _ := m.(M)
	return concrete
}

// ensemble is what both kinds of ensembles can do.
type ensemble struct {
	members []member
	leader  func() member
	leave   func(member) error
	stop    func(member) error
	start   func(member) error
}

// TestLeft_ServesUntilItIsStopped removes a follower, and then the leader, from the ensemble: the server keeps serving
// its clients, and accepts new ones. If it was the leader, all clients are disconnected once. Once stopped, it does not
// start again. zktest behaves the same.
func TestLeft_ServesUntilItIsStopped(t *testing.T) {
	need.Asked(t, "four servers")
	for name, open := range map[string]func(t *testing.T) ensemble{
		"real": func(t *testing.T) ensemble {
			e := zkserver.StartEnsemble(t, 4, zkserver.WithReconfig(), zkserver.WithTickTime(tick))
			var all []member
			for _, s := range e.Servers {
				all = append(all, s)
			}
			return ensemble{
				members: all,
				leader: func() member {
					leader, err := e.Leader()
					require.NoError(t, err)
					return leader
				},
				leave: func(m member) error { return e.Leave(as[*zkserver.Server](m)) },
				stop:  func(m member) error { return as[*zkserver.Server](m).Stop() },
				start: func(m member) error { return as[*zkserver.Server](m).Restart() },
			}
		},
		"zktest": func(t *testing.T) ensemble {
			s := zktest.Run(t, zktest.WithFronts(4), zktest.WithReconfig())
			fronts := slices.Clone(s.Fronts())
			var all []member
			for _, f := range fronts {
				all = append(all, f)
			}
			return ensemble{
				members: all,
				leader:  func() member { return fronts[slices.IndexFunc(fronts, (*zktest.Front).Leads)] },
				leave: func(m member) error {
					fronts = slices.DeleteFunc(fronts, func(f *zktest.Front) bool { return member(f) == m })
					return s.Reconfigure(fronts...)
				},
				stop:  func(m member) error { as[*zktest.Front](m).Stop(); return nil },
				start: func(m member) error { return as[*zktest.Front](m).Start() },
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t)
			leader := e.leader()
			follower := e.members[slices.IndexFunc(e.members, func(m member) bool { return m != leader })]
			for _, victim := range []member{follower, leader} {
				at, events := connect(t, victim)
				_, err := at.Create("/of "+victim.Addr(), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				_, _, changed, err := at.GetW("/zookeeper/config")
				require.NoError(t, err)
				session := at.SessionID()
				require.NoError(t, e.leave(victim))
				select {
				case event := <-changed:
					require.Equal(t, zk.EventNodeDataChanged, event.Type)
				case <-within(t).Done():
					t.Fatal("no event of the change")
				}
				time.Sleep(2 * tick)
				require.Equal(t, victim == leader, disconnected(events))
				await(t, "the session goes on", func() bool {
					there, _,
						err := at.Exists("/of " + victim.Addr())
					return err == nil && there
				})
				require.Equal(t, session, at.SessionID())
				after, _ := connect(t, victim)
				_, err = after.Set("/", nil, -1)
				require.NoError(t, err, "a new client writes")
				require.NotEqual(t, victim, e.leader())
				require.NoError(t, e.stop(victim))
				require.Error(t, e.start(victim))
			}
		})
	}
}

// connect opens a session on one server.
func connect(t *testing.T, at member) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	c, events, err := zk.Connect([]string{at.Addr()}, 10*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	// The server may have lost its leader just now.
	await(t, "a session at "+at.Addr(), func() bool { _, err := c.Sync("/"); return err == nil })
	for len(events) > 0 {
		<-events
	}
	return c, events
}

func disconnected(events <-chan zk.Event) (is bool) {
	for len(events) > 0 {
		is = (<-events).State == zk.StateDisconnected || is
	}
	return is
}
