//go:build unix

package main

import (
	"strconv"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// holder acquires the mutex at /q.
func holder(t *testing.T, srv *zktest.Server) (token string, revoked, done <-chan struct{}) {
	t.Helper()
	c, err := conn.Dial(t.Context(), address(t, srv, "holder"), conn.WithIdentity("web1/42"), conn.WithLogger(silent))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	m, err := mutex.New(c, "/q")
	require.NoError(t, err)
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	return h.Token().String(), h.Revoked(), h.Done()
}

// TestBreak deletes only the named contender, and only if the intent is certain.
func TestBreak(t *testing.T) {
	srv := zktest.Run(t)
	token, _, done := holder(t, srv)
	refuse := func(want int, message string, args ...string) {
		t.Helper()
		status, _, errs := run(t, srv.Addr(), append([]string{"break"}, args...)...)
		require.Equal(t, want, status, errs)
		require.Contains(t, errs, message)
		require.Len(t, srv.Children("/q"), 1)
	}
	refuse(exit.Usage, "want --token", "/q")
	refuse(1, "no contender has the token 7", "--token", "7", "--yes", "/q")
	refuse(exit.Failure, "is alive: ask the holder by zkr revoke /q", "--token", token, "--yes", "/q")
	refuse(exit.Usage, "give --yes", "--token", token, "--alive", "/q")
	status, out, errs := run(t, srv.Addr(), "break", "--token", token, "--alive", "--yes", "--reason", "a test", "/q")
	require.Zero(t, status, errs)
	require.Contains(t, errs, "held by web1/42")
	require.Contains(t, errs, `reason="a test"`)
	require.Contains(t, out, "deleted")
	require.Empty(t, srv.Children("/q"))
	<-done
}

// TestBreak_WithoutSessions checks that break works even though the server does not list its sessions.
func TestBreak_WithoutSessions(t *testing.T) {
	srv := zktest.Run(t, zktest.WithFourLetterWords("srvr"))
	token, _, done := holder(t, srv)
	status, _, errs := run(t, srv.Addr(), "break", "--token", token, "--yes", "/q")
	require.Zero(t, status, errs)
	require.Contains(t, errs, ", not known whether it is alive: the leader does not answer dump")
	<-done
}

func TestBreak_Foreign(t *testing.T) {
	srv := zktest.Run(t)
	c, err := conn.Dial(t.Context(), srv.Addr(), conn.WithLogger(silent))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.CreateAll(t.Context(), "/q", nil))
	node, err := c.Create(t.Context(), "/q/n_", nil, 3)
	require.NoError(t, err)
	_, stat, err := c.Exists(t.Context(), node)
	require.NoError(t, err)
	token := strconv.FormatInt(stat.Czxid, 10)
	status, _, errs := run(t, srv.Addr(), "break", "--token", token, "--yes", "--alive", "/q")
	require.Equal(t, exit.Failure, status)
	require.Contains(t, errs, "give --foreign")
	status, _, errs = run(t, srv.Addr(), "break", "--token", token, "--yes", "--alive", "--foreign", "/q")
	require.Zero(t, status, errs)
	require.Empty(t, srv.Children("/q"))
}

func TestRevoke(t *testing.T) {
	srv := zktest.Run(t)
	status, _, errs := run(t, srv.Addr(), "revoke", "/q")
	require.Equal(t, 1, status)
	require.Contains(t, errs, "no contender to ask")
	token, revoked, _ := holder(t, srv)
	status, _, _ = run(t, srv.Addr(), "revoke", "--token", "7", "/q")
	require.Equal(t, 1, status)
	status, out, errs := run(t, srv.Addr(), "revoke", "/q")
	require.Zero(t, status, errs)
	require.Contains(t, out, token)
	require.Regexp(t, `(?m)^web1/42 +web1 +42 +\d+ +/q/`, out, "the request takes its place in the node")
	<-revoked
	status, out, errs = run(t, srv.Addr(), "status", "/q")
	require.Zero(t, status, errs)
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
