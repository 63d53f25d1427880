package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadHeader_FrameShorterThanAHeader_IsAnError(t *testing.T) {
	for size := range ReplyHeaderSize {
		_, _, err := ReadHeader(make([]byte, size))
		require.Error(t, err)
	}
}
