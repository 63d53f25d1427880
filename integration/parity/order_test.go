package parity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Thousands of names of several shapes are created and deleted, in the same order on both servers. Every listing must
// have the same order on both, even after a restart.
func TestOrder_ZktestAgreesWithReal(t *testing.T) {
	s := zkserver.Start(t, zkserver.WithSessionTimeouts(time.Second, time.Hour))
	z := zktest.Run(t, zktest.WithRelease(release(t, s)), zktest.WithSessionTimeouts(time.Second, time.Hour))
	for _, addr := range []string{s.Addr(), z.Addr()} {
		crowd(t, addr)
	}
	sameOrder(t, s.Addr(), z.Addr())
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	z.Restart()
	sameOrder(t, s.Addr(), z.Addr())
}

var shapes = []func(n int) string{
	func(n int) string { return fmt.Sprintf("lock-%010d", n) },
	func(n int) string { return fmt.Sprintf("10.0.%d.%d:2181", n/256, n%256) },
	func(n int) string { return fmt.Sprintf("%x-é-日", uint32(n)*2654435761) },
}

// crowd creates a node with many children, one with few of formerly many, and ephemeral nodes of an open session.
func crowd(t *testing.T, addr string) {
	t.Helper()
	c := newLister(t, addr)
	for _, parent := range []string{"/many", "/few"} {
		c.do(Op{Code: opCreate, Path: parent})
	}
	g := rand.New(rand.NewPCG(1, 2))
	for _, shape := range shapes {
		for n := range 1000 {
			for _, parent := range []string{"/many", "/few"} {
				c.do(Op{Code: opCreate, Path: parent + "/" + shape(n)})
				if gone := shape(g.IntN(n + 1)); n%3 == 0 || parent == "/few" {
					c.do(Op{Code: opDelete, Path: parent + "/" + gone})
				}
			}
		}
	}
}

func sameOrder(t *testing.T, theirs, ours string) {
	t.Helper()
	var lists [2]map[string][]string
	for i, addr := range []string{theirs, ours} {
		lists[i] = newLister(t, addr).lists()
	}
	for name, want := range lists[0] {
		if got := lists[1][name]; !slices.Equal(want, got) {
			t.Errorf("%s: %d names %.20q on zookeeper, %d names %.20q on zktest", name, len(want), want, len(got), got)
		}
		if slices.IsSorted(want) {
			t.Errorf("%s is sorted, which shows nothing: %.20q", name, want)
		}
	}
}

// A lister is a connection whose paths are the same on every server.
type lister struct {
	t *testing.T
	*run
}

func newLister(t *testing.T, addr string) *lister {
	t.Helper()
	c := &lister{t, newRun(addr)}
	t.Cleanup(c.finish)
	if _, err := c.connect(Op{Code: stepConnect, Timeout: 3_600_000}); err != nil {
		t.Fatal(err)
	}
	return c
}

// do returns the body of a reply.
func (c *lister) do(o Op) *reader {
	c.t.Helper()
	s := c.slots[0]
	s.send(c.run, o)
	for {
		frame, err := s.read()
		if err != nil {
			c.t.Fatalf("%v: %v", o, err)
		}
		in := &reader{rest: frame}
		if xid, _, code := in.int(), in.long(), in.int(); xid == s.xid {
			if code != 0 && code != -101 {
				c.t.Fatalf("%v: error %d", o, code)
			}
			return in
		}
	}
}

// lists lists names in every possible way. A session's own nodes are also listed by the events of its end.
func (c *lister) lists() map[string][]string {
	lists := map[string][]string{}
	for _, parent := range []string{"/many", "/few"} {
		lists["getChildren "+parent] = c.do(Op{Code: opGetChildren, Path: parent}).strings()
		lists["getChildren2 "+parent] = c.do(Op{Code: opGetChildren2, Path: parent}).strings()
		multi := c.do(Op{Code: opMultiRead, Ops: []Op{{Code: opGetChildren, Path: parent}}})
		multi.take(9) // the header of the result
		lists["multiRead "+parent] = multi.strings()
	}
	for n := range 500 {
		c.do(Op{Code: opCreate, Path: "/many/" + shapes[0](10_000+n), Flags: 1})
		if n%3 > 0 {
			c.do(Op{Code: opDelete, Path: "/many/" + shapes[0](10_000+n)})
		}
	}
	lists["getEphemerals"] = c.do(Op{Code: opGetEphemerals, Path: "/"}).strings()
	lists["closeSession"] = c.ending()
	return lists
}

// ending returns the order in which the session's nodes disappear when it ends.
func (c *lister) ending() (paths []string) {
	other := newLister(c.t, c.addr)
	other.do(Op{Code: opAddWatch, Path: "/many", Mode: 1})
	want := len(c.do(Op{Code: opGetEphemerals, Path: "/"}).strings())
	c.do(Op{Code: opClose})
	for len(paths) < want {
		frame, err := other.slots[0].read()
		if err != nil {
			c.t.Fatal(err)
		}
		in := &reader{rest: frame}
		if in.int() == -1 {
			in.take(8 + 4 + 4 + 4)
			paths = append(paths, string(in.buffer()))
		}
	}
	return paths
}
