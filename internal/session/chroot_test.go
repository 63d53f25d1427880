package session

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChroot(t *testing.T) {
	for _, c := range []struct {
		chroot              chroot
		path, onServer      string
		outside, alsoBeside string
	}{
		{"", "/", "/", "", ""},
		{"", "/a", "/a", "", ""},
		{"/app", "/", "/app", "/", "/apple"},
		{"/app", "/a", "/app/a", "/a", "/apple/a"},
		{chroot("/app").sub("/team"), "/a/b", "/app/team/a/b", "/app/a", "/app/teams"},
		{chroot("/app").sub("/"), "/", "/app", "", "/ap"},
		{chroot("").sub("/"), "/a", "/a", "", ""},
	} {
		require.Equal(t, c.onServer, c.chroot.abs(c.path))
		require.Equal(t, c.path, c.chroot.rel(c.onServer))
		require.Empty(t, c.chroot.rel(c.outside))
		require.Empty(t, c.chroot.rel(c.alsoBeside))
	}
}
