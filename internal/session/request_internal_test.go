package session

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

func TestXids_AreThoseThatNobodyWaitsFor(t *testing.T) {
	l := &link{session: &session{}, pending: map[int32]pending{wire.XidOursFirst: {}}}
	l.session.asked.Store(wire.XidOursLast - wire.XidOursFirst - 1)
	for _, want := range []int32{wire.XidOursLast, wire.XidOursFirst + 1, wire.XidOursFirst + 2} {
		frames, ok := l.enroll([]request{{op: wire.OpDelete, frame: wire.DeleteFrame("/a", -1)}}, 1<<10)
		require.True(t, ok)
		require.Equal(t, want, wire.Int32At(frames, wire.PrefixSize))
		require.Contains(t, l.pending, want)
	}
}

// Whoever may not read the root gets its barrier all the same; one whose session has moved does not.
func TestBarrier_RefusedByTheRoot_IsOneStill(t *testing.T) {
	t.Parallel()
	for code, want := range map[int32]error{0: nil, -102: nil, -118: zk.ErrSessionMoved} {
		body := append(wire.AppendInt32(nil, wire.OpCheck), 0)
		body = wire.AppendInt32(body, 0)
		if code != 0 {
			body = append(wire.AppendInt32(nil, wire.OpMultiError), 0)
			body = wire.AppendInt32(wire.AppendInt32(body, code), code)
		}
		body = wire.AppendInt32(append(wire.AppendInt32(body, -1), 1), -1)
		answered := false
		(&Session{session: &session{}}).barrierRequest(func(_ transaction, err error) {
			answered = true
			require.Equal(t, want, err, "%d", code)
		}).answer(reply{body: body}, nil)
		require.True(t, answered)
	}
}
