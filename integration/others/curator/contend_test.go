package curator_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/integration/chaos/resource"
	"github.com/zkrecipes/zkrecipes/integration/kit/peer"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/integration/others/curator"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// session is the session timeout of clients that must survive even on a loaded machine. short is the session timeout of
// processes that a test kills; they too must not lose their sessions before that.
const (
	session = 30 * time.Second
	short   = 10 * time.Second
)

// classes is the directory of the compiled Java program, which all tests share.
var classes string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "curator-")
	if err != nil {
		panic(err)
	}
	classes = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// stage is one server with a Curator process and two of our clients.
type stage struct {
	addr    string
	classes string
	peer    *peer.Peer
	clients [2]*conn.Client
	socket  string
	sets    *resource.Server

	mu     sync.Mutex
	events []check.Event
}

func open(t *testing.T) *stage {
	t.Helper()
	s := &stage{classes: classes}
	curator.Compile(t, s.classes)
	s.addr = zkserver.Start(t, zkserver.WithSessionTimeouts(time.Second, session)).Addr()
	s.peer = s.start(t, session, s.event)
	for i := range s.clients {
		s.clients[i] = s.dial(t, fmt.Sprint("go-", i))
	}
	s.socket = filepath.Join(t.TempDir(), "resource")
	var err error
	s.sets, err = resource.Serve(s.socket)
	must(t, err)
	t.Cleanup(s.sets.Close)
	return s
}

func (s *stage) start(t *testing.T, session time.Duration, event func(check.Event)) *peer.Peer {
	t.Helper()
	return curator.Start(t, s.classes, s.addr, session, event)
}

func (s *stage) dial(t *testing.T, id string) *conn.Client {
	t.Helper()
	c, err := conn.Dial(t.Context(), s.addr, conn.WithSessionTimeout(session), conn.WithIdentity(id))
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

func (s *stage) event(e check.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// Two Curator clients and two of ours contend on every common recipe, for ten thousand sections in total.
func TestContention(t *testing.T) {
	s := open(t)
	total := 0
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { total += s.contend(t, k) })
	}
	t.Logf("%d sections without a violation", total)
}

func (s *stage) contend(t *testing.T, k kind) int {
	t.Helper()
	began := time.Now()
	path := "/contend/" + k.name
	s.prepare(t, k)
	s.events = nil
	var curators []func(context.Context) (string, error)
	for i := range 2 {
		curators = append(curators, s.peer.Begin("loop", fmt.Sprint("java-", i), k.name, path, k.arg, k.sections, s.socket))
	}
	rec := check.Recorder{Now: journal.Now}
	var ours sync.WaitGroup
	for i, c := range s.clients {
		ours.Go(func() { s.loop(t, &rec, fmt.Sprint("go-", i), c, k, path) })
	}
	ours.Wait()
	for _, done := range curators {
		_, err := done(t.Context())
		must(t, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	holds, err := check.Holds(append(rec.Events(), s.events...))
	must(t, err)
	must(t, check.Exclusion(holds, k.limit))
	updates := s.sets.Set(path).Updates()
	if lost := check.LostUpdates(updates); len(lost) > 0 {
		t.Errorf("%d of %d updates lost: %v", len(lost), len(updates), lost[0])
	}
	if len(holds) != 4*k.sections {
		t.Errorf("%d sections, want %d", len(holds), 4*k.sections)
	}
	t.Logf("%d sections, %d updates, in %v; turned over between the two %d times", len(holds), len(updates),
		time.Since(began).Round(time.Millisecond), turns(holds))
	return len(holds)
}

// prepare writes the limit of a kind that keeps it in a node.
func (s *stage) prepare(t *testing.T, k kind) {
	t.Helper()
	if k.arg != "-" {
		_, err := s.peer.Ask(t.Context(), "count", k.arg, k.limit)
		must(t, err)
	}
}

func (s *stage) loop(t *testing.T, rec *check.Recorder, name string, c *conn.Client, k kind, path string) {
	t.Helper()
	lock := k.open(t, c, path, k.arg)
	res, err := resource.Dial(s.socket, name)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = res.Close() }() // every request has been answered
	for i := range k.sections {
		op := call(rec, k, name)
		h, err := lock.take(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		op.Granted(0) // without a token, as for Curator's clients, which have none
		version, err := res.Read(path, 0)
		if err == nil && k.limit == 1 && k.name != "read" {
			err = res.Add(path, 0, version, fmt.Sprint(name, "-", i))
		}
		if err != nil {
			t.Error(err)
		}
		op.Released()
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func call(rec *check.Recorder, k kind, name string) *check.Op {
	if k.name == "read" {
		return rec.CallRead(name)
	}
	return rec.Call(name, 1)
}

// turns counts how often a section of one side followed a section of the other. Without that there was no contention.
func turns(holds []check.Hold) int {
	slices.SortFunc(holds, func(a, b check.Hold) int { return cmp.Compare(a.From, b.From) })
	n := 0
	for i := range len(holds) - 1 {
		if (holds[i].Client[0] == 'j') != (holds[i+1].Client[0] == 'j') {
			n++
		}
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
