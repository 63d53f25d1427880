package curator_test

import (
	"context"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/recipes/barrier"
)

// Each side waits at a barrier that the other has raised, until the other removes it.
func TestBarriers(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const path = "/barriers/a"
	ours, err := barrier.New(s.clients[0], path)
	must(t, err)
	ask := func(words ...any) {
		t.Helper()
		_, err := s.peer.Ask(ctx, words...)
		must(t, err)
	}
	held := func(passed <-chan error) {
		t.Helper()
		select {
		case err := <-passed:
			t.Fatalf("it is up, and the waiter has passed: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
	must(t, ours.Wait(ctx))
	ask("barrier", path, "set")
	must(t, ours.Set(ctx))
	passed := make(chan error, 1)
	go func() { passed <- ours.Wait(ctx) }()
	held(passed)
	ask("barrier", path, "remove")
	must(t, <-passed)

	must(t, ours.Set(ctx))
	ask("barrier", path, "set")
	theirs := s.peer.Begin("barrier", path, "wait")
	go func() {
		_, err := theirs(ctx)
		passed <- err
	}()
	held(passed)
	must(t, ours.Remove(ctx))
	must(t, <-passed)
	ask("barrier", path, "remove")
}
