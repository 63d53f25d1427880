package zkrecipes_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// grant is a grant whose deadline is set by hand, with nobody to tell the hold that it has passed.
type grant struct {
	until    time.Time
	released int
}

func (g *grant) Path() string                { return "/lock/contender" }
func (g *grant) Token() zkrecipes.Token      { return 7 }
func (g *grant) ValidUntil() time.Time       { return g.until }
func (g *grant) Check(context.Context) error { return nil }
func (g *grant) Revoked() <-chan struct{}    { return nil }
func (g *grant) Txn(context.Context, ...any) ([]zk.MultiResponse, error) {
	return nil, nil
}

func (g *grant) Release(context.Context) error {
	g.released++
	return nil
}

// A process that was frozen past its deadline sees the loss at its first look, whatever it looks at: no timer has fired
// yet, and none has to.
func TestHold_FrozenPastTheDeadline_EveryFirstLookSeesTheLoss(t *testing.T) {
	t.Parallel()
	for name, alive := range map[string]func(*zkrecipes.Hold) bool{
		"Err":         func(h *zkrecipes.Hold) bool { return h.Err() == nil },
		"Context.Err": func(h *zkrecipes.Hold) bool { return h.Context().Err() == nil },
		"Cause":       func(h *zkrecipes.Hold) bool { return context.Cause(h.Context()) == nil },
		"Check":       func(h *zkrecipes.Hold) bool { return h.Check(t.Context()) == nil },
		"Done":        func(h *zkrecipes.Hold) bool { return open(h.Done()) },
		"Txn": func(h *zkrecipes.Hold) bool {
			_, err := h.Txn(t.Context())
			return !errors.Is(err, zkrecipes.ErrFenced)
		},
		"Release": func(h *zkrecipes.Hold) bool { return !errors.Is(h.Release(t.Context()), zkrecipes.ErrLost) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &grant{until: time.Now().Add(time.Hour)}
			h, _ := zkrecipes.NewHold(t.Context(), g)
			if h.Err() != nil || h.Context().Err() != nil || !open(h.Done()) {
				t.Fatalf("over before its deadline: %v", h.Err())
			}
			g.until = time.Now().Add(-time.Second)
			if alive(h) {
				t.Error("alive after its deadline")
			}
			var lost *zkrecipes.LostError
			if !errors.As(h.Err(), &lost) || lost.Reason != zkrecipes.LossDeadline || !lost.At.Equal(g.until) {
				t.Errorf("ended by %v, want the deadline of %v", h.Err(), g.until)
			}
			if cause := context.Cause(h.Context()); !errors.Is(cause, zkrecipes.ErrLost) {
				t.Errorf("the context says %v", cause)
			}
			g.until = time.Now().Add(time.Hour)
			if h.Err() == nil {
				t.Error("a lost hold came back")
			}
		})
	}
}

// The hold has ended when its contender is removed: whoever is let in by that comes after it.
func TestHold_Release_EndsBeforeTheContenderGoes(t *testing.T) {
	t.Parallel()
	g := &orderedGrant{grant: grant{until: time.Now().Add(time.Hour)}}
	h, _ := zkrecipes.NewHold(t.Context(), g)
	g.hold = h
	if err := h.Release(t.Context()); err != nil || g.heldAtRelease {
		t.Errorf("released with %v, held when the contender went: %v", err, g.heldAtRelease)
	}
	if err := h.Release(t.Context()); err != nil || !errors.Is(h.Err(), zkrecipes.ErrReleased) {
		t.Errorf("again: %v, ended by %v", err, h.Err())
	}
}

type orderedGrant struct {
	grant
	hold          *zkrecipes.Hold
	heldAtRelease bool
}

func (g *orderedGrant) Release(ctx context.Context) error {
	g.heldAtRelease = g.heldAtRelease || g.hold.Err() == nil
	return g.grant.Release(ctx)
}

func open(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}
