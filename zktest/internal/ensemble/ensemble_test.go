package ensemble

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/access"
	"github.com/zkrecipes/zkrecipes/zktest/internal/javaset"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// deaf is a client that ignores everything.
type deaf struct{}

func (deaf) Event(int64, proto.Event, string) {}
func (deaf) Kick()                            {}
func (deaf) Cut()                             {}

// connect returns a client without a session.
func connect(e *Ensemble) *Client { return e.Fronts[0].Join("", &net.TCPAddr{}, deaf{}) }

// make creates a node in the session, or for the ensemble itself.
func (e *Ensemble) make(tb testing.TB, ses *Session, path string, mode proto.Mode) {
	tb.Helper()
	r := Create{Op: proto.OpCreate, Path: path, ACL: proto.OpenACL, Mode: mode, TTL: -1}
	_, code := e.Write(ses, nil, r.Op, path, func(t *Txn) (tree.Change, proto.Code) { return t.Create(r) })
	require.Equal(tb, proto.CodeOK, code)
}

func TestPassword_IsWhatJavaMakesOfTheID(t *testing.T) {
	// new Random(0x100000000000001L ^ 0xB3415C00L).nextBytes(16)
	require.Equal(t, javaBytes, password(0x100000000000001))
}

var javaBytes = []byte{
	0x05, 0x4c, 0xc7, 0x4a, 0x37, 0x32, 0x7d, 0xb2, 0x15, 0xe7, 0x02, 0xe2, 0x0c, 0x73, 0xf0, 0x05,
}

// TestLedger_RejectsACorruptedTree: the ledger must notice when the tree does not match it.
func TestLedger_RejectsACorruptedTree(t *testing.T) {
	for name, corrupt := range map[string]func(e *Ensemble, ses *Session){
		"nothing": nil,
		"lost ephemeral": func(e *Ensemble, ses *Session) {
			ses.Ephemerals.Remove("/p/e")
			e.EndSession(ses)
		},
		"local session with a node": func(e *Ensemble, ses *Session) {
			ses.Local = e.Fronts[0]
			e.EndSession(ses)
		},
		"counter set back": func(e *Ensemble, _ *Session) {
			e.Tree.Get("/p").Cversion = 0
			e.make(t, nil, "/p/n-", proto.PersistentSequential)
		},
		"child out of nowhere": func(e *Ensemble, _ *Session) {
			e.Tree.Add(&tree.Node{Path: "/p/ghost"})
			e.make(t, nil, "/p/n-", proto.PersistentSequential)
		},
		"zxid set back": func(e *Ensemble, _ *Session) {
			e.Zxid = 0
			e.make(t, nil, "/q", proto.Persistent)
		},
		"ephemeral of a dead session": func(e *Ensemble, _ *Session) {
			t := e.Begin(&Session{ID: 7, Closing: true, Ephemerals: javaset.New(ephemeralBuckets)}, nil)
			t.Apply(tree.Change{Op: proto.OpCreate, Path: "/dead", Owner: 7, Cversion: 9})
			e.Record(t, proto.OpCreate, "/dead", proto.CodeOK)
		},
		"two connections": func(e *Ensemble, ses *Session) {
			e.Attach(connect(e), ses.ID, password(ses.ID), time.Second) // the first does not end
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.UnixMilli(1e12)
			var found []error
			e := New(Settings{
				MaxBuffer: 1 << 20,
				Tick:      time.Second, Size: 1,
				Now: func() time.Time { return now }, Recorded: func(Record) {},
				Violated: func(err error) { found = append(found, err) },
			})
			ses := e.Attach(connect(e), 0, nil, 10*time.Second)
			e.make(t, nil, "/p", proto.Persistent)
			e.make(t, ses, "/p/e", proto.Ephemeral)
			e.make(t, nil, "/p/n-", proto.PersistentSequential)
			require.Empty(t, found)
			if corrupt == nil {
				now = now.Add(time.Minute)
				e.Tick()
				require.Nil(t, e.Tree.Get("/p/e"), "expired")
				require.Empty(t, found)
				return
			}
			corrupt(e, ses)
			require.NotEmpty(t, found)
		})
	}
}

// TestWatchTable_CountsRecursiveWatches: the count determines whether an event checks the watches of parents.
func TestWatchTable_CountsRecursiveWatches(t *testing.T) {
	for _, stack := range []bool{false, true} {
		w, c := newWatchTable(stack), &Client{}
		w.Add("/a", c, WatchRecursive)
		w.Add("/a", c, WatchPersistent)
		w.Add("/b", c, WatchRecursive)
		require.Positive(t, w.recursive)
		require.True(t, w.Drop("/a", c, ^WatchMode(0)))
		w.dropClient(c)
		require.Zero(t, w.recursive)
	}
}

// TestReconfig_IPv6: the ports follow the address, so a server puts it in brackets.
func TestReconfig_IPv6(t *testing.T) {
	e := New(Settings{
		Tick: time.Second, Size: 3, Reconfig: true,
		Now: time.Now, Recorded: func(Record) {}, Violated: func(err error) { require.NoError(t, err) },
	})
	for i, f := range e.Fronts {
		f.Addr = fmt.Sprintf("[::1]:%d", 2181+i)
	}
	e.Start()
	require.Equal(t, "server.1=[::1]:2888:3888:participant;[::1]:2181\n"+
		"server.2=[::1]:2888:3888:participant;[::1]:2182\n"+
		"server.3=[::1]:2888:3888:participant;[::1]:2183\nversion=100000000", string(e.Tree.Get(ConfigPath).Data))
	change := func(r Reconfig) {
		r.Version = -1
		_, code := e.Write(nil, []access.Identity{access.SuperUser}, proto.OpReconfig, ConfigPath,
			func(t *Txn) (tree.Change, proto.Code) { return t.Reconfig(r) })
		require.Equal(t, proto.CodeOK, code)
		e.Adopt()
	}
	change(Reconfig{Members: e.MembersOf(e.Fronts[1:])})
	require.False(t, e.Fronts[0].IsMember())
	change(Reconfig{Joining: "server.1=[::1]:2888:3888;[::1]:2181", Members: proto.Null}) // loopback addresses never clash
	require.True(t, e.Fronts[0].IsMember())
}
