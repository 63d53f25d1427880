package curator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/chaos"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// patience is how long a test waits for what must happen.
const patience = 10 * time.Minute

// The second contender waits until the first releases, and both sides list the same participants in the same order.
func TestArrival(t *testing.T) {
	s := open(t)
	for _, k := range kinds {
		if k.limit != 1 {
			continue
		}
		t.Run(k.name+"/curator first", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			path := "/arrival/java/" + k.name
			ours := k.open(t, s.clients[0], path, k.arg)
			_, err := s.peer.Ask(ctx, "take", "java", k.name, path, k.arg)
			must(t, err)
			granted := take(ctx, ours)
			s.sameQueue(ctx, t, k, path, ours, "java", "go-0")
			notYet(t, granted)
			_, err = s.peer.Ask(ctx, "give", "java")
			must(t, err)
			g := <-granted
			must(t, g.err)
			must(t, g.hold.Release(ctx))
		})
		t.Run(k.name+"/ours first", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			path := "/arrival/go/" + k.name
			ours := k.open(t, s.clients[0], path, k.arg)
			h, err := ours.take(ctx)
			must(t, err)
			granted := s.begin(ctx, k, "java", path)
			s.sameQueue(ctx, t, k, path, ours, "go-0", "java")
			notYet(t, granted)
			must(t, h.Release(ctx))
			must(t, (<-granted).err)
			_, err = s.peer.Ask(ctx, "give", "java")
			must(t, err)
		})
	}
}

type outcome struct {
	hold *zkrecipes.Hold
	err  error
}

func take(ctx context.Context, ours side) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		h, err := ours.take(ctx)
		c <- outcome{h, err}
	}()
	return c
}

func (s *stage) begin(ctx context.Context, k kind, name, path string) <-chan outcome {
	c := make(chan outcome, 1)
	done := s.peer.Begin("take", name, k.name, path, k.arg)
	go func() {
		_, err := done(ctx)
		c <- outcome{err: err}
	}()
	return c
}

func notYet(t *testing.T, granted <-chan outcome) {
	t.Helper()
	select {
	case g := <-granted:
		t.Fatalf("granted beside the holder: %v", g.err)
	default:
	}
}

// sameQueue waits until both contenders are in the queue, and compares how each side lists them.
func (s *stage) sameQueue(ctx context.Context, t *testing.T, k kind, path string, ours side, ids ...string) {
	t.Helper()
	var list []zkrecipes.Participant
	poll(t, "both in the queue", func() bool {
		var err error
		list, err = ours.who(ctx)
		must(t, err)
		return len(list) == len(ids)
	})
	if strings.HasPrefix(k.name, "semaphore") {
		return // it has no single queue of holders and waiters
	}
	text, err := s.peer.Ask(ctx, "who", k.name, path, k.arg)
	must(t, err)
	want := make([]string, len(list))
	for i, p := range list {
		if want[i] = p.Path; k.elects() {
			if p.Name != ids[i] {
				t.Errorf("participant %d is %q, want %q", i, p.Name, ids[i])
			}
			want[i] = p.Name
		}
	}
	if k.elects() {
		want[0] += "*" // the leader
	}
	if got := strings.Fields(text); !slices.Equal(got, want) {
		t.Errorf("Curator sees %v, we see %v", got, want)
	}
}

func (k kind) elects() bool { return k.name == "latch" || k.name == "selector" }

// After a holder is killed, the waiter on the other side is granted once the holder's session has expired.
func TestHolderKilled(t *testing.T) { //nolint:tparallel // the others measure, so they run separately
	s := open(t)
	worker, err := chaos.Build(t.TempDir())
	must(t, err)
	for _, k := range kinds {
		if k.limit != 1 {
			continue
		}
		t.Run(k.name+"/curator", func(t *testing.T) {
			t.Parallel() // it mostly waits for sessions to expire
			peer := s.start(t, short, s.event)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			path := "/killed/java/" + k.name
			_, err := peer.Ask(ctx, "take", "java", k.name, path, k.arg)
			must(t, err)
			granted := take(ctx, k.open(t, s.clients[0], path, k.arg))
			notYet(t, granted)
			peer.Kill()
			began := time.Now()
			g := <-granted
			must(t, g.err)
			t.Logf("granted %v after the kill", time.Since(began))
			must(t, g.hold.Release(ctx))
		})
		if k.worker == "-" {
			continue
		}
		t.Run(k.name+"/ours", func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			path := "/killed/go/" + k.name
			kill := s.holder(ctx, t, worker, k, path)
			name := "java-" + k.name
			granted := s.begin(ctx, k, name, path)
			ours := k.open(t, s.clients[0], path, k.arg)
			s.sameQueue(ctx, t, kind{name: "semaphore"}, path, ours, "worker", "java")
			notYet(t, granted)
			kill()
			began := time.Now()
			must(t, (<-granted).err)
			t.Logf("granted %v after the kill", time.Since(began))
			_, err := s.peer.Ask(ctx, "give", name)
			must(t, err)
		})
	}
}

// holder runs a worker until it holds, and returns a function that kills it.
func (s *stage) holder(ctx context.Context, t *testing.T, worker string, k kind, path string) (kill func()) {
	t.Helper()
	p := exec.CommandContext(ctx, worker, "-id", "worker", "-servers", s.addr, "-recipe", k.worker, "-path", path,
		"-resource", s.socket,
		"-limit", fmt.Sprint(k.limit), "-session-timeout", short.String(), "-writes", "1")
	in, err := p.StdinPipe()
	must(t, err)
	_, err = io.WriteString(in, "hold\n")
	must(t, err)
	out, err := p.StdoutPipe()
	must(t, err)
	must(t, p.Start())
	ended := false
	kill = func() {
		if !ended {
			_ = p.Process.Kill()
			_ = p.Wait()
			ended = true
		}
	}
	t.Cleanup(kill)
	// A node in the queue may belong to the section before the order to hold. Only the worker knows that it holds as
	// ordered.
	for lines, stuck := json.NewDecoder(out), false; !stuck; {
		var l journal.Line
		must(t, lines.Decode(&l))
		stuck = l.Kind == check.Granted && l.Stuck
	}
	return kill
}

func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
