package parity

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/awake"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What takes time cannot be compared step by step. It must happen within the same limits on both servers.
const (
	tick  = 500 * time.Millisecond
	check = 300 * time.Millisecond // of containers
	slack = 700 * time.Millisecond // for a busy machine
)

// A timed server can be restarted.
type timed struct {
	name  string
	start func(t *testing.T) (addr string, restart func() error)
}

var timedServers = []timed{
	{"zktest", func(t *testing.T) (string, func() error) {
		t.Helper()
		s := zktest.Run(t, zktest.WithTickTime(tick), zktest.WithContainerCheck(check), zktest.WithExtendedTypes())
		return s.Addr(), func() error {
			s.Restart()
			return nil
		}
	}},
	{"zookeeper", func(t *testing.T) (string, func() error) {
		t.Helper()
		s := zkserver.Start(t, zkserver.WithTickTime(tick), zkserver.WithContainerCheck(check),
			zkserver.WithProperty("zookeeper.extendedTypesEnabled", "true"))
		release(t, s)
		return s.Addr(), s.Restart
	}},
}

// onTheClock skips a test that a busy machine may fail, unless it is requested.
func onTheClock(t *testing.T) {
	t.Helper()
	if os.Getenv("NIGHTLY") == "" {
		t.Skip("looks at the clock: NIGHTLY=1 runs it")
	}
}

func TestTimed_SessionExpiresWithinATick(t *testing.T) {
	onTheClock(t)
	t.Parallel()
	for _, server := range timedServers {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			addr, _ := server.start(t)
			s := sit(t, addr)
			s.connect(1, 2*time.Second)
			last := time.Now()
			s.do(Op{Slot: 1, Code: opCreate, Path: "/e", Flags: 1})
			s.do(Op{Code: opExists, Path: "/e", Watch: true})
			s.deleted("/e")
			within(t, last, 2*time.Second, 2*time.Second+tick)
			if _, err := s.slots[1].read(); err == nil {
				t.Error("the connection of an expired session goes on")
			}
		})
	}
}

func TestTimed_EmptyContainersAndOldNodesGo(t *testing.T) {
	onTheClock(t)
	t.Parallel()
	for _, server := range timedServers {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			addr, _ := server.start(t)
			s := sit(t, addr)
			for _, box := range []string{"/used", "/unused"} {
				s.do(Op{Code: opContainer, Path: box, Flags: 4})
			}
			s.do(Op{Code: opCreate, Path: "/used/child"})
			s.do(Op{Code: opExists, Path: "/used", Watch: true})
			s.do(Op{Code: opDelete, Path: "/used/child"})
			emptied := time.Now()
			s.deleted("/used")
			within(t, emptied, 0, check)

			const ttl = 800 * time.Millisecond
			made := time.Now()
			s.do(Op{Code: opCreateTTL, Path: "/ttl", Flags: 5, TTL: ttl.Milliseconds()})
			s.do(Op{Code: opExists, Path: "/ttl", Watch: true})
			s.deleted("/ttl")
			within(t, made, ttl, ttl+check)
			s.do(Op{Code: opExists, Path: "/unused"}) // never had a child, so it stays
		})
	}
}

// A restart gives every session a full timeout again, including a session without a connection.
func TestTimed_RestartRearmsSessions(t *testing.T) {
	onTheClock(t)
	t.Parallel()
	const timeout = 6 * time.Second // long enough to find the session alive, before the restart and after it
	for _, server := range timedServers {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			addr, restart := server.start(t)
			s := sit(t, addr)
			s.connect(1, timeout)
			s.do(Op{Slot: 1, Code: opCreate, Path: "/e", Flags: 1})
			if err := s.slots[1].hangUp(); err != nil {
				t.Fatal(err)
			}
			s.slots[1] = nil
			time.Sleep(time.Second) // of its timeout
			before := time.Now()
			if err := restart(); err != nil {
				t.Fatal(err)
			}
			after := time.Now()
			s.connect(2, 10*time.Second)
			s.do(Op{Slot: 2, Code: opExists, Path: "/e", Watch: true})
			s.slots[0], s.slots[2] = s.slots[2], nil
			s.deleted("/e")
			if d := time.Since(before); d <= timeout {
				t.Errorf("expired %v after the restart began", d)
			}
			if d := awake.Since(after); d > timeout+tick+slack {
				t.Errorf("expired %v after the restart", d)
			}
		})
	}
}

// A sitting is a run in which the test makes the steps one by one. Slot 0 watches.
type sitting struct {
	*run

	t *testing.T
}

func sit(t *testing.T, addr string) *sitting {
	t.Helper()
	s := &sitting{newRun(addr), t}
	t.Cleanup(s.finish)
	if err := s.makeRoot(); err != nil {
		t.Fatal(err)
	}
	s.connect(0, 10*time.Second)
	return s
}

func (s *sitting) connect(slot int, timeout time.Duration) {
	s.t.Helper()
	line, err := s.run.connect(Op{Slot: slot, Code: stepConnect, Session: slot, Timeout: int32(timeout.Milliseconds())})
	if err != nil || s.slots[slot] == nil || !strings.Contains(line, fmt.Sprintf("timeout=%d ", timeout.Milliseconds())) {
		s.t.Fatalf("%s, %v", line, err)
	}
}

func (s *sitting) do(o Op) {
	s.t.Helper()
	var got []string
	if err := s.perform([]Op{o}, &got); err != nil {
		s.t.Fatal(err)
	}
	if !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, " err=0") }) {
		s.t.Fatalf("%v: %q", o, got)
	}
}

// deleted waits until slot 0 gets the event of the deletion.
func (s *sitting) deleted(path string) {
	s.t.Helper()
	frame, err := s.slots[0].read()
	if err != nil {
		s.t.Fatal(err)
	}
	in := reader{rest: frame}
	in.int()
	if line := s.showEvent(&in); !strings.Contains(line, fmt.Sprintf("type=2 state=3 path=%q", path)) {
		s.t.Fatalf("got %s, want the end of %s", line, path)
	}
}

// within checks how long something took. Time in which the machine was suspended does not count as a delay of the
// server.
func within(t *testing.T, from time.Time, least, most time.Duration) {
	t.Helper()
	d, ran := time.Since(from), awake.Since(from)
	t.Logf("after %v", d.Round(time.Millisecond))
	if d < least || ran > most+slack {
		t.Errorf("took %v, of which the machine ran %v: not %v to %v", d, ran, least, most)
	}
}
