//go:build unix

package main

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
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
	refuse(exit.Failure, "is alive: ask the holder with zkr revoke /q", "--token", token, "--yes", "/q")
	refuse(exit.Usage, "pass --yes", "--token", token, "--alive", "/q")
	out, errs := ends(t, 0, srv.Addr(), "break", "--token", token, "--alive", "--yes", "--reason", "a test", "/q")
	require.Contains(t, errs, "held by web1/42")
	require.Contains(t, errs, `reason="a test"`)
	require.Equal(t, 1, strings.Count(errs, "\n"), "a line of the log")
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
	require.Contains(t, errs, `alive="unknown whether it is alive: the leader does not answer dump"`)
	<-h.Done()
}

// A contender that left between the last look and the delete was reported as a failure of zkr, not as one that is gone.
func TestBreak_LeavesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		c := bubble.Dial(t, srv, "a")
		m, err := mutex.New(c, "/q")
		require.NoError(t, err)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		queue, err := (&survey.Reader{Client: c}).Path(t.Context(), "/q")
		require.NoError(t, err)
		srv.Intercept(zktest.Match{Op: zktest.OpDelete},
			zktest.Before(func(zktest.Request) { require.NoError(t, srv.Delete(h.Path())) }))
		code, message := exit.Status(remove(t.Context(), c, queue.Holders[0]))
		require.Equal(t, 1, code, message)
		require.Contains(t, message, "has already left the queue: nothing was deleted")
	})
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
	require.Contains(t, errs, "pass --foreign")
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

// The names that requests have replaced are printed, even if another holder cannot be asked.
func TestRevoke_OneCannotBeAsked(t *testing.T) {
	srv := zktest.Run(t)
	c := dial(t, srv, conn.WithIdentity("web1/42"))
	l, err := rwlock.New(c, "/q", rwlock.WithKazoo())
	require.NoError(t, err)
	h, err := l.RLock(t.Context())
	require.NoError(t, err)
	_, err = c.Create(t.Context(), "/q/9f0a5c5f1c0a4f0d8f2b7f3a6d1e4c2b__rlock__", []byte("py"),
		zk.FlagEphemeral|zk.FlagSequence)
	require.NoError(t, err)
	status, out, errs := run(t, srv.Addr(), "revoke", "/q")
	require.Equal(t, exit.Failure, status)
	require.Contains(t, errs, "cannot be asked to release: it is a kazoo node")
	require.Contains(t, out, "web1/42 ")
	require.NotContains(t, out, "py")
	<-h.Revoked()
}
