package link

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// alone is an owner that numbers its requests and accepts nothing else.
type alone struct{ xid int32 }

func (a *alone) NextXid() int32                      { a.xid++; return a.xid }
func (a *alone) Saw(int64)                           {}
func (a *alone) Answered(_, _ int32, _, _ time.Time) {}
func (a *alone) Expired(error)                       {}
func (a *alone) TooLarge(int) error                  { return nil }
func (a *alone) Event(zk.Event)                      {}
func (a *alone) Down(*Connection)                    {}

func at(seconds float64) time.Time {
	return time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// A process that was stopped reports that, instead of blaming the server.
func TestOverdue_ProcessDidNotRun_IsSaid(t *testing.T) {
	due := time.Now()
	require.Equal(t, errSilent, Overdue(errSilent, due, due.Add(900*time.Millisecond)))
	err := Overdue(errSilent, due, due.Add(20*time.Second))
	require.ErrorIs(t, err, errSilent)
	require.EqualError(t, err, "this process did not run for 20s: "+errSilent.Error())
}

// The dial took as long as the whole attempt may take.
func TestConnection_LimitHasPassed_IsClosed(t *testing.T) {
	for range 1000 {
		near, far := net.Pipe()
		c := newConnection(&alone{}, near, "10.0.0.1:2181", time.Second, 2*time.Second)
		<-c.gone
		require.ErrorContains(t, c.why, "no session within 1s")
		_ = far.Close()
	}
}

// The connection closes after a call has seen that it is up: it must refuse the call, which would never be answered.
func TestConnection_Closed_TakesNoCall(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	c := newConnection(&alone{}, near, "10.0.0.1:2181", time.Minute, 0)
	c.Drop()
	answered := false
	require.False(t, c.Ask([]Request{{wire.OpSync, wire.SyncFrame("/"), func(Reply, error) { answered = true }}}, nil))
	require.False(t, answered)
}

// A request carries the number by which its reply is matched.
func TestAsk_GivesTheRequestItsXid(t *testing.T) {
	t.Parallel()
	c := newConnection(&alone{xid: 41}, nil, "", time.Hour, 0)
	defer c.watchdog.Stop()
	frame := wire.DeleteFrame("/a", -1)
	require.True(t, c.Ask([]Request{{Op: wire.OpDelete, Frame: frame}}, nil))
	require.Equal(t, uint32(42), binary.BigEndian.Uint32(frame[wire.PrefixSize:]))
	require.Equal(t, int32(42), c.pending[0].xid)
}

// The oldest unanswered sync determines when the connection is abandoned, even if others were answered or came before.
func TestOldestSync_OneIsAnswered_TheNextIsTheOldest(t *testing.T) {
	t.Parallel()
	c := newConnection(&alone{}, nil, "", time.Hour, 0)
	defer c.watchdog.Stop()
	for i, op := range []int32{wire.OpGetData, wire.OpSync, wire.OpGetData, wire.OpSync} {
		require.True(t, c.Ask([]Request{{Op: op, Frame: wire.SyncFrame("/")}}, nil))
		c.pending[i].sent = at(float64(i))
	}
	for _, want := range []time.Time{at(1), at(1), at(3), at(3), {}} {
		require.Equal(t, want, c.OldestSync())
		if len(c.pending) > 0 {
			_, err := c.take(c.pending[0].xid, 0)
			require.NoError(t, err)
		}
	}
}

// A request's input may keep its answer in memory, so nothing of it remains after the answer, even if there were many.
func TestTake_Answered_NothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, many := range []int{1, 8, 9, 100} {
		c := newConnection(&alone{}, nil, "", time.Hour, 0)
		defer c.watchdog.Stop()
		for range 3 {
			for range many {
				require.True(t, c.Ask([]Request{{Op: wire.OpGetData, Frame: wire.SyncFrame("/"), Done: func(Reply, error) {}}},
					nil))
			}
			for len(c.pending) > 0 {
				_, err := c.take(c.pending[0].xid, 0)
				require.NoError(t, err)
			}
			for _, r := range c.few {
				require.Nil(t, r.done, many)
			}
		}
	}
}

// The same holds for requests that fail with the connection.
func TestFail_NothingIsLeft(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	c := newConnection(&alone{}, near, "", time.Hour, 0)
	require.True(t, c.Ask([]Request{{Op: wire.OpGetData, Frame: wire.SyncFrame("/"), Done: func(Reply, error) {}}}, nil))
	c.Drop()
	for _, r := range c.few {
		require.Nil(t, r.done)
	}
}

// Windows has a different error number for a connection that was reset.
func TestHungUp(t *testing.T) {
	t.Parallel()
	for _, err := range []error{io.EOF, syscall.ECONNRESET, syscall.Errno(10054)} {
		require.True(t, HungUp(&net.OpError{Op: "read", Err: err}), err)
	}
	require.False(t, HungUp(syscall.ECONNREFUSED))
}

// socket records what is written.
type socket struct {
	net.Conn
	writes [][]byte
	closed bool
}

func (s *socket) Write(p []byte) (int, error) {
	s.writes = append(s.writes, bytes.Clone(p))
	return len(p), nil
}

func (s *socket) Close() error { s.closed = true; return nil }

func (s *socket) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

// TestAsk_WithinSent_LeavesInTheSameWrite: in the order in which they were made, including those of others.
func TestAsk_WithinSent_LeavesInTheSameWrite(t *testing.T) {
	t.Parallel()
	s := &socket{}
	c := newConnection(&alone{}, s, "", time.Hour, 0)
	defer c.watchdog.Stop()
	ask := func(path string, sent func()) {
		require.True(t, c.Ask([]Request{{Op: wire.OpSync, Frame: wire.SyncFrame(path)}}, sent))
	}
	ask("/a", func() {
		require.False(t, c.FailIdle(errDropped))
		ask("/b", func() { ask("/c", nil) })
		others := make(chan struct{})
		go func() {
			defer close(others)
			ask("/d", nil)
		}()
		<-others
		require.Empty(t, s.writes)
	})
	require.Len(t, s.writes, 1)
	rest := s.writes[0]
	for _, path := range []string{"/a", "/b", "/c", "/d"} {
		want := wire.SyncFrame(path)
		require.Equal(t, want[wire.PrefixSize+4:], rest[wire.PrefixSize+4:len(want)])
		rest = rest[len(want):]
	}
	ask("/e", nil)
	require.Len(t, s.writes, 2)
}

// TestAsk_FailsWithinSent_WritesNothing: the caller learns that its request was not sent, and may send it on the next
// connection.
func TestAsk_FailsWithinSent_WritesNothing(t *testing.T) {
	t.Parallel()
	s := &socket{}
	c := newConnection(&alone{}, s, "", time.Hour, 0)
	var told error
	done := func(_ Reply, err error) { told = err }
	require.True(t, c.Ask([]Request{{wire.OpSync, wire.SyncFrame("/"), done}}, c.Drop))
	require.ErrorIs(t, told, zk.ErrNoServer)
	require.True(t, s.closed)
	require.Empty(t, s.writes)
}

// coded is an owner that keeps the code of the latest answer.
type coded struct {
	alone
	code int32
}

func (o *coded) Answered(_, code int32, _, _ time.Time) { o.code = code }

// A transaction that fails because the session is being closed says so in its results. It counted as the answer of a
// quorum, and so as a proof of that session.
func TestAnswered_TransactionSaysThatTheSessionExpired_IsNotItsHeader(t *testing.T) {
	t.Parallel()
	const ok, noNode, expired, inconsistent = 0, -101, -112, -2
	for name, c := range map[string]struct {
		results []int32
		want    int32
		err     error
	}{
		"the first op":    {[]int32{expired, inconsistent}, expired, zk.ErrSessionExpired},
		"a later op":      {[]int32{ok, expired, inconsistent}, expired, zk.ErrSessionExpired},
		"another failure": {[]int32{ok, noNode, inconsistent}, ok, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, far := net.Pipe()
			defer func() { _ = far.Close() }()
			owner := &coded{code: 1}
			link := newConnection(owner, near, "", time.Hour, 0)
			defer link.Drop()
			var told error
			frame := wire.MultiFrame([]any{&zk.CheckVersionRequest{Path: "/"}})
			done := func(_ Reply, err error) { told = err }
			require.True(t, link.Ask([]Request{{wire.OpMulti, frame, done}}, nil))
			reply := binary.BigEndian.AppendUint32(nil, uint32(owner.xid))
			reply = append(reply, make([]byte, 8+4)...) // zxid and code
			for _, code := range c.results {
				reply = append(reply, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0) // an error, which has the code twice
				reply = binary.BigEndian.AppendUint32(reply, uint32(code))
			}
			reply = append(reply, 0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff)
			go func() { _, _ = far.Write(reply) }()
			require.NoError(t, link.handle(len(reply)))
			require.Equal(t, c.want, owner.code)
			require.Equal(t, c.err, told)
		})
	}
}
