package wire

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadHeader_FrameShorterThanAHeader_IsAnError(t *testing.T) {
	for size := range ReplyHeaderSize {
		_, _, err := ReadHeader(make([]byte, size))
		require.Error(t, err)
	}
}

// TestOpNames_AreThoseOfTheTracer: users read there what Request.Op may be.
func TestOpNames_AreThoseOfTheTracer(t *testing.T) {
	source, err := os.ReadFile("../../tracer.go")
	require.NoError(t, err)
	doc := regexp.MustCompile(`// Op is (.*)\.\n`).FindSubmatch(source)
	require.NotNil(t, doc)
	var told []string
	for _, word := range regexp.MustCompile(`"(\w+)"`).FindAllSubmatch(doc[1], -1) {
		told = append(told, string(word[1]))
	}
	require.ElementsMatch(t, OpNames(), told)
}
