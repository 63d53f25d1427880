// Package bubble contains what the tests of several packages share inside testing/synctest bubbles. Examples use it as
// well.
package bubble

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Timeout is the session timeout unless an option says otherwise.
const Timeout = 10 * time.Second

// Silent keeps the client's log out of test output.
var Silent = conn.WithLogger(slog.New(slog.DiscardHandler))

// Warnings makes the client write its warnings, as text.
func Warnings(to io.Writer) conn.Option {
	return conn.WithLogger(slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelWarn})))
}

// Dial connects a client to srv in memory, and closes it at the end of the test. The label is the client's identity,
// and selects the client for faults.
func Dial(t testing.TB, srv *zktest.Server, label string, opts ...conn.Option) *conn.Client {
	t.Helper()
	return DialAt(t, srv, label, "", opts...)
}

// DialAt is Dial with a chroot.
func DialAt(t testing.TB, srv *zktest.Server, label, chroot string, opts ...conn.Option) *conn.Client {
	t.Helper()
	opts = append([]conn.Option{
		conn.WithDialer(srv.DialAs(label)), conn.WithIdentity(label),
		conn.WithSessionTimeout(Timeout), Silent,
	}, opts...)
	c, err := conn.Dial(t.Context(), srv.Addr()+chroot, opts...)
	if err != nil {
		t.Fatalf("dial %s: %v", label, err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it never fails
	return c
}
