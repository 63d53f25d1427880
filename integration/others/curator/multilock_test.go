package curator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/recipes/multilock"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// Curator's InterProcessMultiLock and our LockAll exclude each other, on the nodes of mutexes. Curator acquires in the
// given order, which here is that of the paths, and ours in the order of the paths, which is not the given one. Neither
// waits for the other forever.
func TestMultiLock(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const first, second, sections = "/multi/a", "/multi/b", 200
	rec := check.Recorder{Now: journal.Now}
	both := func(c int) []zkrecipes.Part {
		var parts []zkrecipes.Part
		for _, path := range []string{second, first} {
			m, err := mutex.New(s.clients[c], path)
			must(t, err)
			parts = append(parts, m.Part())
		}
		return parts
	}

	// One after another: the waiter has only the first lock, and both hold nodes of mutexes.
	_, err := s.peer.Ask(ctx, "take", "java", "multi", first, second)
	must(t, err)
	ours := both(0)
	waiting := take(ctx, side{take: func(ctx context.Context) (*zkrecipes.Hold, error) {
		all, err := multilock.LockAll(ctx, ours...)
		if err != nil {
			return nil, err
		}
		return all.Of(ours[0]), errors.Join(all.Of(ours[1]).Release(ctx), all.Of(ours[0]).Release(ctx))
	}})
	m, err := mutex.New(s.clients[1], first)
	must(t, err)
	poll(t, "ours waits", func() bool {
		queue, err := m.Queue(ctx)
		must(t, err)
		return len(queue) == 2
	})
	notYet(t, waiting)
	_, err = s.peer.Ask(ctx, "give", "java")
	must(t, err)
	must(t, (<-waiting).err)

	// Then in contention.
	done := make(chan error, 2)
	for i := range s.clients {
		go func() {
			parts := both(i)
			for range sections {
				op := rec.Call(fmt.Sprint("go-", i), 1)
				all, err := multilock.LockAll(ctx, parts...)
				if err != nil {
					op.Failed()
					done <- err
					return
				}
				op.GrantedHold(all.Of(parts[0]))
				op.Released()
				if err := all.Release(ctx); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range sections {
		op := rec.Call("java", 1)
		_, err := s.peer.Ask(ctx, "take", "java", "multi", first, second)
		must(t, err)
		op.Granted(0)
		op.Released() // recorded before the release, so that the times lie within those of the hold
		_, err = s.peer.Ask(ctx, "give", "java")
		must(t, err)
	}
	for range s.clients {
		must(t, <-done)
	}
	holds, err := rec.Holds()
	must(t, err)
	must(t, check.Exclusion(holds, 1))
	t.Logf("%d sections", len(holds))
}
