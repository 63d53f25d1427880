package wire

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

// TestErrorOf_IsTheLibrarys: callers compare with go-zookeeper's variables.
func TestErrorOf_IsTheLibrarys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, far := library(t)
		for code := int32(-130); code < 0; code++ {
			outcome := make(chan error, 1)
			go func() { outcome <- z.Delete("/a", -1) }()
			request := received(t, far)
			reply := appendInt32(make([]byte, PrefixSize), int32At(request, PrefixSize))
			_, err := far.Write(seal(appendInt32(binary.BigEndian.AppendUint64(reply, 1), code)))
			require.NoError(t, err)
			err = <-outcome
			if text := err.Error(); strings.HasPrefix(text, "unknown error: ") {
				require.Equal(t, zkrecipes.Code(code), ErrorOf(code))
				require.ErrorContains(t, ErrorOf(code), fmt.Sprint(code))
			} else {
				require.ErrorIs(t, err, ErrorOf(code), "%d", code)
			}
		}
	})
	require.NoError(t, ErrorOf(0))
}

// After these errors a write may have been executed. Connection loss is not a fault of the server.
func TestServerFault(t *testing.T) {
	for code := zkrecipes.Code(-10); code <= 0; code++ {
		fault := code == -1 || code == -2 || code == -3 || code == -5
		if ServerFault(code) != fault {
			t.Errorf("%d: %v", code, !fault)
		}
	}
}
