// Package bubble has what the tests of several packages need in a testing/synctest bubble. It also serves examples.
package bubble

import (
	"log/slog"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Timeout is the session timeout unless an option says otherwise.
const Timeout = 10 * time.Second

// Silent keeps the log of a client out of the output of the tests.
var Silent = conn.WithLogger(slog.New(slog.DiscardHandler))

// Dial connects a client to srv in memory and closes it at the end of the test. The label is its identity, and selects
// it for faults.
func Dial(t testing.TB, srv *zktest.Server, label string, opts ...conn.Option) *conn.Client {
	t.Helper()
	return DialAt(t, srv, label, "", opts...)
}

// DialAt is Dial with a chroot.
func DialAt(t testing.TB, srv *zktest.Server, label, chroot string, opts ...conn.Option) *conn.Client {
	t.Helper()
	opts = append([]conn.Option{conn.WithDialer(srv.DialAs(label)), conn.WithIdentity(label),
		conn.WithSessionTimeout(Timeout), Silent}, opts...)
	c, err := conn.Dial(t.Context(), srv.Addr()+chroot, opts...)
	if err != nil {
		t.Fatalf("dial %s: %v", label, err)
	}
	t.Cleanup(func() { _ = c.Close() }) // never fails
	return c
}
