// Package bubble has what the tests of several packages need inside a testing/synctest bubble, and their examples outside.
package bubble

import (
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Timeout is the session timeout unless an option says otherwise.
const Timeout = 10 * time.Second

// Dial connects a client to srv in memory, under a label that faults can select it by and that is its identity, and
// closes it at the end of the test.
func Dial(t testing.TB, srv *zktest.Server, label string, opts ...conn.Option) *conn.Client {
	t.Helper()
	return DialAt(t, srv, label, "", opts...)
}

// DialAt is Dial with a chroot.
func DialAt(t testing.TB, srv *zktest.Server, label, chroot string, opts ...conn.Option) *conn.Client {
	t.Helper()
	opts = append([]conn.Option{conn.WithDialer(srv.DialAs(label)), conn.WithIdentity(label), conn.WithSessionTimeout(Timeout)}, opts...)
	c, err := conn.Dial(t.Context(), srv.Addr()+chroot, opts...)
	if err != nil {
		t.Fatalf("dial %s: %v", label, err)
	}
	t.Cleanup(func() { _ = c.Close() }) // never fails
	return c
}
