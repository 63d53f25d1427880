package wire

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadHeader_FrameShorterThanAHeader_IsAnError(t *testing.T) {
	for size := range ReplyHeaderSize {
		_, _, err := ReadHeader(make([]byte, size))
		require.Error(t, err)
	}
}

// TestOpNames_AreThoseOfTheTracer: its documentation lists the possible values of Request.Op for users.
func TestOpNames_AreThoseOfTheTracer(t *testing.T) {
	source, err := os.ReadFile("../../tracer.go")
	require.NoError(t, err)
	doc := regexp.MustCompile(`(?s)// Op is (.*?)\.\n`).FindSubmatch(source)
	require.NotNil(t, doc)
	var told []string
	for _, word := range regexp.MustCompile(`"(\w+)"`).FindAllSubmatch(doc[1], -1) {
		told = append(told, string(word[1]))
	}
	require.ElementsMatch(t, OpNames(), told)
}

// If a client does not specify whether it accepts a read-only server, a server takes it for an old one and logs a
// warning.
func TestConnectFrame_SaysThatItWantsNoReadOnlyServer(t *testing.T) {
	frame := ConnectFrame(7, time.Second, 8, nil)
	const fields = 4 + 8 + 4 + 8 + 4 + passwordSize
	require.Len(t, frame, PrefixSize+fields+1)
	require.Zero(t, frame[PrefixSize+fields])
}
