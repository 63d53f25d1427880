package paths

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidate(t *testing.T) {
	for _, good := range []string{
		"/", "/a", "/a/b", "/a.b", "/...", "/.a", "/a/..b", "/ä", "/世界", "/\uf900", "/\uffef", "/a b",
		"/_c_x-lock-0000000000",
	} {
		require.NoError(t, Validate(good), good)
	}
	for _, bad := range []string{
		"", "a", "a/b", "/a/", "//", "//a", "/a//b", "/.", "/..", "/a/.", "/a/./b", "/a/../b",
		"/a\x00", "/a\n", "/a\x7f", "/a\u0085", "/a\ue000", "/a\uf8ff", "/a\ufff0", "/a\uffff", "/a\xff", "/a😀",
		"/a\U00010000", "/a\U0010ffff",
	} {
		require.Error(t, Validate(bad), "%q", bad)
	}
}

// The path that the message suggests is a valid one.
func TestValidate_SaysWhatIsWanted(t *testing.T) {
	for bad, want := range map[string]string{
		"":       `path is empty: want an absolute path such as /app/lock`,
		"foo":    `path "foo" is relative: want /foo`,
		"foo/":   `path "foo/" is relative: want /foo`,
		"/foo/":  `path "/foo/" ends with a slash: want /foo`,
		"//":     `path "//" ends with a slash: want an absolute path such as /app/lock`,
		"/a//b":  `path "/a//b" has an empty, "." or ".." part: want /a/b`,
		"../a/b": `path "../a/b" is relative: want /a/b`,
		"a\x00b": `path "a\x00b" is relative: want an absolute path such as /app/lock`,
	} {
		require.EqualError(t, Validate(bad), want)
	}
}
