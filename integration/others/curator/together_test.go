package curator_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// Readers and writers of both sides use one lock. Readers of both sides share it, and a writer excludes everyone else.
func TestReadersAndWriters(t *testing.T) {
	s := open(t)
	const path = "/together/rwlock"
	s.share(t, path)
	sections := map[string]int{"read": 300, "write": 100}
	rec := check.Recorder{Now: journal.Now}
	var ours sync.WaitGroup
	var curators []func(context.Context) (string, error)
	for i, k := range []kind{{name: "read", open: openReader}, {name: "write", open: openWriter}} {
		k.sections, k.limit = sections[k.name], 1
		for j := range 2 {
			curators = append(curators, s.peer.Begin("loop", fmt.Sprint("java-", k.name, j), k.name, path, "-",
				k.sections, s.socket))
		}
		ours.Go(func() { s.loop(t, &rec, "go-"+k.name, s.clients[i], k, path) })
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
	must(t, check.Exclusion(check.ReadWrite(holds)))
	if lost := check.LostUpdates(s.sets.Set(path).Updates()); len(lost) > 0 {
		t.Error(lost[0])
	}
	shared := 0
	for _, a := range holds {
		for _, b := range holds {
			if a.Read && b.Read && a.Client[0] == 'j' && b.Client[0] == 'g' && a.From < b.To && b.From < a.To {
				shared++
			}
		}
	}
	t.Logf("%d sections; readers of the two shared %d times", len(holds), shared)
}

// share makes a reader of each side share the lock with one of the other side. The loops do not guarantee that: one
// side may be done before the other begins.
func (s *stage) share(t *testing.T, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ask := func(words ...any) {
		_, err := s.peer.Ask(ctx, words...)
		must(t, err)
	}
	ours := openReader(t, s.clients[0], path, "-")
	ask("take", "java", "read", path, "-")
	beside, err := ours.take(ctx)
	must(t, err)
	ask("give", "java")
	ask("take", "java", "read", path, "-")
	must(t, beside.Release(ctx))
	ask("give", "java")
}

// Since 5.5, a Curator writer that becomes a reader keeps its place: its new node carries the number of the writer. Our
// reader shares the lock with it, and our writer waits until it releases. Source: CURATOR-621.
func TestDowngrade(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const path = "/together/downgrade"
	reader, writer := openReader(t, s.clients[0], path, "-"), openWriter(t, s.clients[1], path, "-")
	first := func(n int) (number string) { // in the queue, once it has n contenders
		poll(t, fmt.Sprint(n, " in the queue"), func() bool {
			queue, err := reader.who(ctx)
			must(t, err)
			if len(queue) == n {
				number = queue[0].Path[len(queue[0].Path)-10:]
			}
			return len(queue) == n
		})
		return number
	}
	_, err := s.peer.Ask(ctx, "take", "java", "downgradable", path, "-")
	must(t, err)
	number := first(1)
	reading := take(ctx, reader)
	first(2)
	writing := take(ctx, writer)
	first(3)
	notYet(t, reading)
	_, err = s.peer.Ask(ctx, "downgrade", "java")
	must(t, err)
	if first(3) != number {
		t.Skip("Curator before 5.5 sends the reader to the end of the queue")
	}
	r := <-reading
	must(t, r.err)
	must(t, r.hold.Release(ctx))
	first(2)
	notYet(t, writing)
	_, err = s.peer.Ask(ctx, "give", "java")
	must(t, err)
	w := <-writing
	must(t, w.err)
	must(t, w.hold.Release(ctx))
}

// After the SharedCount is raised, the next waiter is granted, on either side.
func TestSharedCount(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const path, limit = "/together/semaphore", "/together/limit"
	k := kind{name: "semaphore", arg: limit}
	set := func(n int) {
		_, err := s.peer.Ask(ctx, "count", limit, n)
		must(t, err)
	}
	set(1)
	ours := openSemaphore(t, s.clients[0], path, limit)
	_, err := s.peer.Ask(ctx, "take", "java", k.name, path, limit)
	must(t, err)
	granted := take(ctx, ours)
	poll(t, "ours waits", func() bool {
		list, err := ours.who(ctx)
		must(t, err)
		return len(list) == 2
	})
	notYet(t, granted)
	set(2)
	first := <-granted
	must(t, first.err)

	waiting := s.begin(ctx, k, "java-2", path)
	poll(t, "Curator waits", func() bool {
		list, err := ours.who(ctx)
		must(t, err)
		return len(list) == 3
	})
	notYet(t, waiting)
	set(3)
	must(t, (<-waiting).err)

	// All three permits are held. Our call for two waits until two are returned.
	sem, err := semaphore.New(s.clients[1], path, 3, semaphore.WithLimitNode(limit))
	must(t, err)
	both := take(ctx, side{take: func(ctx context.Context) (*zkrecipes.Hold, error) { return sem.Acquire(ctx, 2) }})
	_, err = s.peer.Ask(ctx, "give", "java")
	must(t, err)
	notYet(t, both)
	must(t, first.hold.Release(ctx))
	two := <-both
	must(t, two.err)
	must(t, two.hold.Release(ctx))
	_, err = s.peer.Ask(ctx, "give", "java-2")
	must(t, err)
}

// Either side can ask the holder on the other side to release.
func TestRevocation(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const path = "/together/revocable"
	m, err := mutex.New(s.clients[0], path)
	must(t, err)

	_, err = s.peer.Ask(ctx, "take", "java", "revocable", path, "-")
	must(t, err)
	must(t, m.Revoke(ctx))
	select {
	case name := <-s.peer.Revoked:
		if name != "java" {
			t.Errorf("asked %q back", name)
		}
	case <-ctx.Done():
		t.Fatal("Curator was not told that its lock is asked back")
	}
	_, err = s.peer.Ask(ctx, "give", "java")
	must(t, err)

	h, err := m.Lock(ctx)
	must(t, err)
	_, err = s.peer.Ask(ctx, "revoke", h.Path())
	must(t, err)
	select {
	case <-h.Revoked():
	case <-ctx.Done():
		t.Fatal("our holder was not told that its lock is asked back")
	}
	must(t, h.Err())
	must(t, h.Release(ctx))
}
