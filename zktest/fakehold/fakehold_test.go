package fakehold_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest/fakehold"
)

type key struct{}

func TestHold_LastsUntilItIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		h := fakehold.New(ctx, 42)
		cancel()
		time.Sleep(24 * time.Hour)
		require.NoError(t, h.Err())
		require.NoError(t, h.Check(t.Context()))
		require.NoError(t, h.Context().Err())
		require.Equal(t, "value", h.Context().Value(key{}))
		require.Equal(t, zkrecipes.Token(42), h.Token())
		require.Equal(t, "/fakehold/lock-0000000042", h.Path())
		found, ok := zkrecipes.HoldFromContext(h.Context())
		require.True(t, ok && found == h.Hold)
		require.NoError(t, h.Release(t.Context()))
		<-h.Done()
		require.ErrorIs(t, context.Cause(h.Context()), zkrecipes.ErrReleased)
		h.Lose(zkrecipes.LossExpired)
		require.ErrorIs(t, h.Err(), zkrecipes.ErrReleased, "the first end counts")
	})
}

func TestHold_Lose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fakehold.New(t.Context(), 1)
		h.Lose(zkrecipes.LossSuspended)
		<-h.Done()
		want := &zkrecipes.LostError{Reason: zkrecipes.LossSuspended, Path: h.Path(), At: time.Now()}
		require.Equal(t, want, h.Err())
		require.Equal(t, want, context.Cause(h.Context()))
		require.Equal(t, want, h.Release(t.Context()))
		_, err := h.Txn(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrFenced)
	})
}

// TestHold_Lose_AsARealHold: the error is like that of a real hold, and nothing is proven after it.
func TestHold_Lose_AsARealHold(t *testing.T) {
	for reason := zkrecipes.LossExpired; reason <= zkrecipes.LossRefused; reason++ {
		for name, left := range map[string]time.Duration{"proven": time.Minute, "frozen past the deadline": -time.Minute} {
			t.Run(reason.String()+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := fakehold.New(t.Context(), 1)
					until := time.Now().Add(left)
					h.SetValidUntil(until)
					h.Lose(reason)
					var lost *zkrecipes.LostError
					require.ErrorAs(t, h.Err(), &lost)
					require.Equal(t, reason, lost.Reason)
					require.Equal(t, reason == zkrecipes.LossClosed, errors.Is(lost, zkrecipes.ErrClosed))
					require.Equal(t, reason == zkrecipes.LossRefused, errors.Is(lost, zkrecipes.ErrAuthFailed))
					require.False(t, h.ValidUntil().After(time.Now()))
					if reason == zkrecipes.LossDeadline {
						require.Equal(t, h.ValidUntil(), lost.At)
					} else {
						require.Equal(t, time.Now(), lost.At)
					}
					if left < 0 {
						require.Equal(t, until, h.ValidUntil(), "the deadline had passed before")
					}
				})
			})
		}
	}
}

// TestHold_Lose_AfterTheRelease: the session of a released hold lives on.
func TestHold_Lose_AfterTheRelease(t *testing.T) {
	h := fakehold.New(t.Context(), 1)
	until := h.ValidUntil()
	require.NoError(t, h.Release(t.Context()))
	h.Lose(zkrecipes.LossExpired)
	require.Equal(t, until, h.ValidUntil())
}

func TestHold_Check_CallerGivesUp(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	h := fakehold.New(t.Context(), 1)
	require.NoError(t, h.Check(ctx))
	cancel(why)
	require.ErrorIs(t, h.Check(ctx), why)
	require.NoError(t, h.Err(), "the answer is unknown")
}

// TestHold_SetValidUntil: no timer ends the hold, but the first query does.
func TestHold_SetValidUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fakehold.New(t.Context(), 1)
		until := time.Now().Add(time.Minute)
		h.SetValidUntil(until)
		require.Equal(t, until, h.ValidUntil())
		time.Sleep(time.Hour)
		require.Equal(t, &zkrecipes.LostError{Reason: zkrecipes.LossDeadline, Path: h.Path(), At: until}, h.Err())
	})
}

func TestHold_Expiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fakehold.New(t.Context(), 1)
		warned := h.Expiring(time.Second)
		began := time.Now()
		h.SetValidUntil(began.Add(time.Minute))
		<-warned
		require.Equal(t, 59*time.Second, time.Since(began))
		require.NoError(t, h.Err())
		h.SetValidUntil(began.Add(time.Hour))
		again := h.Expiring(time.Second)
		h.Lose(zkrecipes.LossExpired)
		<-again
	})
}

func TestHold_Revoke(t *testing.T) {
	h := fakehold.New(t.Context(), 1)
	select {
	case <-h.Revoked():
		t.Fatal("nobody has asked")
	default:
	}
	h.Revoke()
	h.Revoke()
	<-h.Revoked()
	require.NoError(t, h.Err(), "a request alone")
}

func TestHold_Txn(t *testing.T) {
	_, err := fakehold.New(t.Context(), 1).Txn(t.Context(), zkrecipes.OpCheck("/x", -1))
	require.ErrorContains(t, err, "use a recipe on a server of package zktest")
}
