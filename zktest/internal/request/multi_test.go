package request

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

func FuzzJute(f *testing.F) {
	var e proto.Encoder
	multiHeader(&e, proto.OpCreate, false, 0)
	e.Str("/m")
	e.Bytes(nil)
	e.ACLs(proto.OpenACL)
	e.Int32(0)
	multiHeader(&e, proto.OpSetData, false, 0)
	e.Str("/m")
	e.Bytes([]byte{1})
	e.Int32(2)
	endMulti(&e)
	f.Add(e.B)
	f.Fuzz(func(t *testing.T, p []byte) {
		d := &proto.Decoder{B: p}
		ops, ok := decodeMulti(d)
		require.LessOrEqual(t, len(ops)*9, len(p))
		if !ok {
			return
		}
		for _, o := range ops {
			require.LessOrEqual(t, len(o.path)+len(o.data)+len(o.create.Data), len(p))
		}
	})
}
