package zktest

import (
	"bytes"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// TestReplies_OverTCPUnread_KeepTheirOrder: the reading goroutine writes until the socket is full, and the writing
// goroutine takes over in the middle of a reply.
func TestReplies_OverTCPUnread_KeepTheirOrder(t *testing.T) {
	const reads, size = 20, 1 << 16
	s := Run(t)
	r := attachTCP(t, s.Addr())
	s.lock()
	for c := range s.conns {
		tcp, ok := c.nc.(*net.TCPConn)
		require.True(t, ok)
		require.NoError(t, tcp.SetWriteBuffer(1<<14))
	}
	s.unlock()
	other := attachTCP(t, s.Addr())
	other.make("/big", Persistent)
	content := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, size) }
	for i := range reads {
		other.run(OpSetData, setBody("/big", content(i), -1))
		r.askAlone(s, OpGetData, watchBody("/big", i == reads-1))
		r.askAlone(s, OpPing, nil)
	}
	r.askAlone(s, OpPing, nil) // its own answer and the event may arrive in either order
	require.Greater(t, queued(s, ""), size, "the socket is full")
	other.run(OpSetData, setBody("/big", nil, -1))
	for i := range reads {
		f := r.next()
		require.True(t, bytes.Equal(content(i), f.body.Bytes()))
		require.EqualValues(t, proto.XidPing, r.next().xid)
	}
	last := []frame{r.next(), r.next()}
	slices.SortFunc(last, func(a, b frame) int { return int(a.xid - b.xid) })
	require.EqualValues(t, proto.XidPing, last[0].xid)
	require.Equal(t, event{NodeDataChanged, "/big"}, last[1].event())
	require.Equal(t, CodeOK, r.do(OpPing, nil))
}

// askAlone returns once the server has read the request, and has therefore answered the previous ones.
func (r *raw) askAlone(s *Server, op Op, fill func(*proto.Encoder)) {
	read := s.Intercept(Match{Op: op}, Proceed())
	r.ask(op, fill)
	<-read.Done()
}

func TestReplies_OverTCPStalled_Wait(t *testing.T) {
	s := Run(t)
	r := attachTCP(t, s.Addr())
	s.Stall(Session(r.session), FromServer)
	for range 2 {
		r.askAlone(s, OpPing, nil)
	}
	require.Positive(t, queued(s, ""))
	s.Heal(Everyone)
	require.EqualValues(t, proto.XidPing, r.next().xid)
	require.EqualValues(t, proto.XidPing, r.next().xid)
}

// TestReply_IsSent_WhileAViolationIsReported: the function that receives violations may wait for the client that caused
// one.
func TestReply_IsSent_WhileAViolationIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{})
		s := Run(t, InMemory(), OnViolation(func(error) { <-answered }))
		r := attachRaw(t, s, "", 10*time.Second)
		require.Zero(t, took(func() { r.run(OpCreate, createBody("/a", Container)) }))
		close(answered)
	})
}
