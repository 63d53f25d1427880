package session

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
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

// A server announces a frame, and sends little or nothing of it. The memory grows with what has come.
func TestReadBody_AnnouncedLength_TakesNoMemory(t *testing.T) {
	for _, sent := range []int{0, 100, 1 << 17} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readBody(bytes.NewReader(make([]byte, sent)), 256<<20)
		runtime.ReadMemStats(&after)
		require.Error(t, err)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "%d bytes sent", sent)
	}
	for _, size := range []int{0, 1, unproven - 1, unproven, unproven + 1, 2 * unproven, 5*unproven + 7} {
		want := bytes.Repeat([]byte{1, 2, 3}, size/3+1)[:size]
		got, err := readBody(bytes.NewReader(append(want, 9)), size)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), size)
	}
}

func BenchmarkReadBody(b *testing.B) {
	for _, size := range []int{100, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			from := bytes.NewReader(make([]byte, size))
			for b.Loop() {
				_, _ = from.Seek(0, 0)
				_, _ = readBody(from, size)
			}
		})
	}
}
