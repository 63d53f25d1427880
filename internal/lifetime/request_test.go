package lifetime

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

func TestXids_ArePositive(t *testing.T) {
	t.Parallel()
	o := linkOwner{&Lifetime{}}
	o.xids.Store(math.MaxInt32 - 1)
	for _, want := range []int32{math.MaxInt32, 1, 2} {
		require.Equal(t, want, o.NextXid())
	}
}

// A client that may not read the root still gets its barrier. A client whose session has moved does not.
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
		BarrierRequest(func(err error) {
			answered = true
			require.Equal(t, want, err, "%d", code)
		}).Done(link.Reply{Body: body}, nil)
		require.True(t, answered)
	}
}

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
