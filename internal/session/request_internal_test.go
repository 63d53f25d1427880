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

func TestXids_AreThoseThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	s := &session{core: &core{opts: &Config{}}}
	s.asked.Store(math.MaxInt32 - 1)
	c := newConnection(s, nil, "", time.Hour)
	c.pending[1] = pending{}
	for _, want := range []int32{math.MaxInt32, 2, 3} {
		frame := wire.DeleteFrame("/a", -1)
		require.True(t, c.ask(t.Context(), []request{{op: wire.OpDelete, frame: frame}}))
		require.Equal(t, uint32(want), binary.BigEndian.Uint32(frame[wire.PrefixSize:]))
		require.Contains(t, c.pending, want)
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
