package paths

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChroot(t *testing.T) {
	for _, c := range []struct {
		chroot              Chroot
		path, onServer      string
		outside, alsoBeside string
	}{
		{"", "/", "/", "", ""},
		{"", "/a", "/a", "", ""},
		{"/app", "/", "/app", "/", "/apple"},
		{"/app", "/a", "/app/a", "/a", "/apple/a"},
		{Chroot("/app").Sub("/team"), "/a/b", "/app/team/a/b", "/app/a", "/app/teams"},
		{Chroot("/app").Sub("/"), "/", "/app", "", "/ap"},
		{Chroot("").Sub("/"), "/a", "/a", "", ""},
	} {
		require.Equal(t, c.onServer, c.chroot.Abs(c.path))
		require.Equal(t, c.path, c.chroot.Rel(c.onServer))
		require.Empty(t, c.chroot.Rel(c.outside))
		require.Empty(t, c.chroot.Rel(c.alsoBeside))
	}
}
