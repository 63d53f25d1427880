package session

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidatePath(t *testing.T) {
	for _, good := range []string{"/", "/a", "/a/b", "/a.b", "/...", "/.a", "/a/..b", "/ä", "/世界", "/a b", "/_c_x-lock-0000000000"} {
		require.NoError(t, ValidatePath(good), good)
	}
	for _, bad := range []string{
		"", "a", "a/b", "/a/", "//", "//a", "/a//b", "/.", "/..", "/a/.", "/a/./b", "/a/../b",
		"/a\x00", "/a\n", "/a\x7f", "/a\u0085", "/a\ue000", "/a\ufff0", "/a\uffff", "/a\xff",
	} {
		require.Error(t, ValidatePath(bad), "%q", bad)
	}
}
