package liveness

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// A new operation has to declare here what its answer proves.
func TestWitnessOf_EveryOperation_IsJudged(t *testing.T) {
	judged := map[string]Witness{
		"create": Quorum, "delete": Quorum, "set": Quorum, "setacl": Quorum, "multi": Quorum, "sync": Leader,
		"exists": AnyServer, "get": AnyServer, "acl": AnyServer, "children": AnyServer, "close": AnyServer,
		"watch": AnyServer, "unwatch": AnyServer,
	}
	for op := int32(-128); op < 128; op++ {
		name := wire.OpName(op)
		if strings.HasPrefix(name, "operation ") {
			continue
		}
		want, known := judged[name]
		require.True(t, known, name)
		require.Equal(t, want, WitnessOf(op, 0), "%s, %d", name, op)
		require.Equal(t, min(want, Leader), WitnessOf(op, -101), "%s refused, %d", name, op)
	}
}
