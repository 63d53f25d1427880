package proto

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The parity tests compare the same strings with a real server.
func TestText_InvalidUTF8AndCharactersAboveTheFirstPlane_AreAsInJava(t *testing.T) {
	for in, want := range map[string]string{
		"/é\uffff":         "/é\uffff",
		"/\U0001F600":      "/\xed\xa0\xbd\xed\xb8\x80",
		"a\xc3":            "a\ufffd",
		"\x80\x80a":        "\ufffd\ufffda",
		"\xc0\xafa":        "\ufffd\ufffda",
		"\xe2\x82a":        "\ufffda",
		"\xe2\x82":         "\ufffd",
		"\xed\xa0\x80a":    "\ufffda",
		"\xe0\x80\x80a":    "\ufffd\ufffd\ufffda",
		"\xf0\x9f\x98a":    "\ufffda",
		"\xf4\x90\x80\x80": "\ufffd\ufffd\ufffd\ufffd",
	} {
		require.Equal(t, want, string(appendUTF8(nil, fromUTF8([]byte(in)))), "%q", in)
	}
	require.NotEqual(t, Null, fromUTF8([]byte(Null)))
}
