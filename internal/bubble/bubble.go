// Package bubble has what the tests of several packages need inside a testing/synctest bubble.
package bubble

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Dial connects a client to srv in memory, under a label that faults can select it by, and closes it at the end of the
// test. The session timeout is 10 s unless an option says otherwise.
func Dial(t testing.TB, srv *zktest.Server, label string, opts ...conn.Option) *conn.Client {
	t.Helper()
	opts = append([]conn.Option{conn.WithDialer(srv.DialAs(label)), conn.WithIdentity(label), conn.WithSessionTimeout(10e9)}, opts...)
	c, err := conn.Dial(t.Context(), srv.Addr(), opts...)
	if err != nil {
		t.Fatalf("dial %s: %v", label, err)
	}
	t.Cleanup(func() { _ = c.Close() }) // never fails
	return c
}
