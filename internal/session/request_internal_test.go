package session

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

func TestXids_ArePositive(t *testing.T) {
	t.Parallel()
	s := &session{core: &core{opts: &Config{}}}
	s.asked.Store(math.MaxInt32 - 1)
	c := newConnection(s, nil, "", time.Hour)
	defer c.watchdog.Stop()
	for i, want := range []int32{math.MaxInt32, 1, 2} {
		frame := wire.DeleteFrame("/a", -1)
		require.True(t, c.ask(t.Context(), []request{{op: wire.OpDelete, frame: frame}}))
		require.Equal(t, uint32(want), binary.BigEndian.Uint32(frame[wire.PrefixSize:]))
		require.Equal(t, want, c.pending[i].xid)
	}
}

// The oldest sync without an answer decides when the connection is given up, also if others were answered or came before.
func TestOldestSync_OneIsAnswered_TheNextIsTheOldest(t *testing.T) {
	t.Parallel()
	s := &session{core: &core{opts: &Config{}}}
	c := newConnection(s, nil, "", time.Hour)
	defer c.watchdog.Stop()
	for i, op := range []int32{wire.OpGetData, wire.OpSync, wire.OpGetData, wire.OpSync} {
		require.True(t, c.ask(t.Context(), []request{{op: op, frame: wire.SyncFrame("/")}}))
		c.pending[i].sent = at(float64(i))
	}
	for _, want := range []time.Time{at(1), at(1), at(3), at(3), {}} {
		require.Equal(t, want, c.oldestSync())
		if len(c.pending) > 0 {
			_, err := c.take(c.pending[0].xid)
			require.NoError(t, err)
		}
	}
}

// A client that may not read the root gets its barrier all the same. A client whose session has moved does not.
func TestBarrier_RefusedByTheRoot_IsOneStill(t *testing.T) {
	t.Parallel()
	for code, want := range map[int32]error{0: nil, -102: nil, -118: zk.ErrSessionMoved} {
		body := append(appendInt32(nil, wire.OpCheck), 0)
		body = appendInt32(body, 0)
		if code != 0 {
			body = append(appendInt32(nil, wire.OpMultiError), 0)
			body = appendInt32(appendInt32(body, code), code)
		}
		body = appendInt32(append(appendInt32(body, -1), 1), -1)
		answered := false
		(&Session{session: &session{}}).barrierRequest(func(_ transaction, err error) {
			answered = true
			require.Equal(t, want, err, "%d", code)
		}).answer(reply{body: body}, nil)
		require.True(t, answered)
	}
}

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
