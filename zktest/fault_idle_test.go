package zktest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// ended is a test that records its log, and ends on demand.
type ended struct {
	testing.TB
	logged   []string
	cleanups []func()
}

func (e *ended) Helper()          {}
func (e *ended) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }
func (e *ended) Logf(format string, args ...any) {
	e.logged = append(e.logged, fmt.Sprintf(format, args...))
}

func (e *ended) end() []string {
	for _, f := range e.cleanups {
		f()
	}
	return e.logged
}

// TestRun_LogsFaultsThatDidNothing: a test with a typo in a path or a label proves nothing.
func TestRun_LogsFaultsThatDidNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ended{TB: t}
		srv := Run(e, InMemory())
		r := attachRaw(t, srv, "a", 10*time.Second)
		srv.Intercept(Match{Op: OpCreate, Path: "^/a$"}, Fail(CodeNoAuth))
		srv.Intercept(Match{Op: OpCreate, Path: "^/typo$", From: Label("a")}, Fail(CodeNoAuth))
		srv.Intercept(Match{Op: OpCreate, Path: "^/removed$"}, DropReply()).Remove()
		srv.Intercept(Match{Op: OpCreate, Skip: 5}, Ignore())
		srv.Intercept(Match{Op: OpDelete}, Forbid())
		srv.Intercept(Match{Op: OpSync, From: Label("b")}, Ignore())
		require.Equal(t, CodeNoAuth, r.do(OpCreate, createBody("/a", Persistent)))
		require.Equal(t, CodeOK, r.do(OpCreate, createBody("/a", Persistent)))
		srv.Refuse(Label("c"))
		_, err := srv.DialAs("c")(t.Context(), "tcp", "")
		require.Error(t, err, "it is known, and refused")
		require.Zero(t, srv.Cut(Label("A")))
		require.Equal(t, 1, srv.Cut(Everyone))
		logged := e.end()
		require.Len(t, logged, 6)
		for i, want := range []string{
			`the rule create ^/typo$ of "a" hit no request: 0 matched`, `the rule create ^/removed$ hit no request`,
			`the rule create after 5 hit no request: 1 matched`, `the rule sync of "b" hit no request`,
			`no client had the label "A" that a fault names: want one of ["a" "c"]`, `no client had the label "b"`,
		} {
			require.Contains(t, logged[i], want)
		}
		require.Contains(t, logged[0], "fault_idle_test.go:")
	})
}

// TestRequest_NamesTheSessionAsServersDo: no server prints a sign.
func TestRequest_NamesTheSessionAsServersDo(t *testing.T) {
	require.Contains(t, Request{Op: OpSync, Session: -0x35ff_ffff_ffff_fffe}.String(), "session 0xca00000000000002")
}
