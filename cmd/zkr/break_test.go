//go:build unix

package main

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestBreak deletes only the named contender, and only if the intent is certain.
func TestBreak(t *testing.T) {
	srv := zktest.Run(t)
	h := locked(t, srv, "/q", "web1/42")
	token := h.Token().String()
	refuse := func(want int, message string, args ...string) {
		t.Helper()
		_, errs := ends(t, want, srv.Addr(), append([]string{"break"}, args...)...)
		require.Contains(t, errs, message)
		require.Len(t, srv.Children("/q"), 1)
	}
	refuse(exit.Usage, "want --token", "/q")
	refuse(1, "no contender has the token 7", "--token", "7", "--yes", "/q")
	refuse(exit.Failure, "is alive: ask the holder by zkr revoke /q", "--token", token, "--yes", "/q")
	refuse(exit.Usage, "give --yes", "--token", token, "--alive", "/q")
	out, errs := ends(t, 0, srv.Addr(), "break", "--token", token, "--alive", "--yes", "--reason", "a test", "/q")
	require.Contains(t, errs, "held by web1/42")
	require.Contains(t, errs, `reason="a test"`)
	require.Contains(t, out, "deleted")
	require.Empty(t, srv.Children("/q"))
	<-h.Done()
}

// TestBreak_WithoutSessions checks that break works even though the server does not list its sessions.
func TestBreak_WithoutSessions(t *testing.T) {
	srv := zktest.Run(t, zktest.WithFourLetterWords("srvr"))
	h := locked(t, srv, "/q", "web1/42")
	token := h.Token().String()
	_, errs := ends(t, 0, srv.Addr(), "break", "--token", token, "--yes", "/q")
	require.Contains(t, errs, ", not known whether it is alive: the leader does not answer dump")
	<-h.Done()
}

func TestBreak_Foreign(t *testing.T) {
	srv := zktest.Run(t)
	c := dial(t, srv)
	require.NoError(t, c.CreateAll(t.Context(), "/q", nil))
	node, err := c.Create(t.Context(), "/q/n_", nil, 3)
	require.NoError(t, err)
	_, stat, err := c.Exists(t.Context(), node)
	require.NoError(t, err)
	token := strconv.FormatInt(stat.Czxid, 10)
	_, errs := ends(t, exit.Failure, srv.Addr(), "break", "--token", token, "--yes", "--alive", "/q")
	require.Contains(t, errs, "give --foreign")
	ends(t, 0, srv.Addr(), "break", "--token", token, "--yes", "--alive", "--foreign", "/q")
	require.Empty(t, srv.Children("/q"))
}

func TestRevoke(t *testing.T) {
	srv := zktest.Run(t)
	_, errs := ends(t, 1, srv.Addr(), "revoke", "/q")
	require.Contains(t, errs, "no contender to ask")
	h := locked(t, srv, "/q", "web1/42")
	ends(t, 1, srv.Addr(), "revoke", "--token", "7", "/q")
	out, _ := ends(t, 0, srv.Addr(), "revoke", "/q")
	require.Contains(t, out, h.Token().String())
	require.Regexp(t, `(?m)^web1/42 +web1 +42 +\d+ +/q/`, out, "the request takes its place in the node")
	<-h.Revoked()
	out, _ = ends(t, 0, srv.Addr(), "status", "/q")
	require.Regexp(t, `^/q \(mutex\): session (0x[0-9a-f]+) was asked to release \S+ ago; held by session (0x[0-9a-f]+)\n`,
		out)
	require.Regexp(t, `(?m)^  holds  mutex  -   -     -  .* 0x[0-9a-f]+$`, out)
	require.NotContains(t, out, "lock-")
}
