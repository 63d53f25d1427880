package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

func TestAdmit_RefusesTokensBelowTheHighest(t *testing.T) {
	ctx, gate := t.Context(), fence.New(fence.NewMemory())
	require.NoError(t, gate.Admit(ctx, "a", 7))
	require.NoError(t, gate.Admit(ctx, "a", 7), "as often as it likes")
	require.NoError(t, gate.Admit(ctx, "b", 3), "resources have nothing to do with each other")
	require.NoError(t, gate.Admit(ctx, "a", 9))

	err := gate.Admit(ctx, "a", 8)
	require.ErrorIs(t, err, fence.ErrStale)
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	assert.Equal(t, fence.StaleError{Resource: "a", Presented: 8, Highest: 9}, *stale)
	require.NotErrorIs(t, err, fence.ErrInvalid, "answered differently")
	assert.EqualError(t, err, `"a": stale token 8: 9 has been seen`)
	assert.NoError(t, gate.Admit(ctx, "a", 9), "a stale token changes nothing")
}

func TestAdmit_RefusesBadInput(t *testing.T) {
	ctx, gate := t.Context(), fence.New(fence.NewMemory())
	for _, token := range []zkrecipes.Token{0, -1, -1 << 63} {
		err := gate.Admit(ctx, "a", token)
		require.ErrorIs(t, err, fence.ErrInvalid)
		require.ErrorContains(t, err, fmt.Sprintf("token %d: tokens are positive", token))
		require.NotErrorIs(t, err, fence.ErrStale)
	}
	require.EqualError(t, gate.Admit(ctx, "", 1), "invalid fence request: the resource is empty")
	require.ErrorIs(t, fence.New(nil).Admit(ctx, "a", 1), fence.ErrInvalid)
	require.ErrorIs(t, (*fence.Gate)(nil).Admit(ctx, "a", 1), fence.ErrInvalid)
	assert.NoError(t, gate.Admit(ctx, "a", 1), "nothing of that was kept")
}

func TestMemory_ZeroValue_IsEmpty(t *testing.T) {
	var memory fence.Memory
	gate := fence.New(&memory)
	require.NoError(t, gate.Admit(t.Context(), "a", 7))
	require.ErrorIs(t, gate.Admit(t.Context(), "a", 6), fence.ErrStale)
}

func TestAdmit_ContextHasEnded(t *testing.T) {
	gate := fence.New(fence.NewMemory())
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	require.ErrorIs(t, gate.Admit(ctx, "a", 5), cause)
	assert.NoError(t, gate.Admit(t.Context(), "a", 4), "not admitted, and not kept")
}

// store is a Store made of a function.
type store func(t zkrecipes.Token) (zkrecipes.Token, error)

func (s store) Raise(_ context.Context, _ string, t zkrecipes.Token) (zkrecipes.Token, error) {
	return s(t)
}

func TestAdmit_StoreFails(t *testing.T) {
	broken := errors.New("disk on fire")
	err := fence.New(store(func(t zkrecipes.Token) (zkrecipes.Token, error) {
		return t, broken
	})).Admit(t.Context(), "a", 5)
	require.ErrorIs(t, err, broken, "not admitted, although the store kept it")
	require.EqualError(t, err, `fence "a": token 5: disk on fire`)

	forgetful := fence.New(store(func(zkrecipes.Token) (zkrecipes.Token, error) { return 0, nil }))
	require.ErrorContains(t, forgetful.Admit(t.Context(), "a", 5), "the store kept 0")
}

// flaky fails at random, before or after it keeps the token.
type flaky struct{ fence.Store }

func (f flaky) Raise(ctx context.Context, resource string, t zkrecipes.Token) (zkrecipes.Token, error) {
	const one, in = 1, 8
	if rand.IntN(in) < one {
		return 0, errors.New("not kept")
	}
	highest, err := f.Store.Raise(ctx, resource, t)
	if err == nil && rand.IntN(in) < one {
		return 0, errors.New("kept, but the answer is lost")
	}
	return highest, err
}

// admission is a call of Admit that returned nil. All stamps are totally ordered.
type admission struct {
	token      zkrecipes.Token
	begin, end int64
}

// backwards finds an admission that began after the admission of a higher token had ended.
func backwards(all []admission) (first, second admission, found bool) {
	for _, a := range all {
		for _, b := range all {
			if a.end < b.begin && b.token < a.token {
				return a, b, true
			}
		}
	}
	return admission{}, admission{}, false
}

func TestBackwards_RejectsCorruptedHistory(t *testing.T) {
	history := []admission{{5, 1, 4}, {7, 2, 3}, {7, 5, 6}}
	_, _, found := backwards(history)
	require.False(t, found, "5 may have come before 7: they overlap")
	_, _, found = backwards(append(history, admission{6, 7, 8}))
	require.True(t, found)
}

func TestAdmit_ConcurrentCallsNeverGoBackwards(t *testing.T) {
	file, err := fence.OpenFile(t.Context(), filepath.Join(t.TempDir(), "tokens"))
	require.NoError(t, err)
	defer func() { assert.NoError(t, file.Close()) }()
	for name, s := range map[string]fence.Store{
		"memory": fence.NewMemory(), "file": file, "flaky": flaky{fence.NewMemory()},
	} {
		t.Run(name, func(t *testing.T) {
			var (
				wg       sync.WaitGroup
				mu       sync.Mutex
				stamp    atomic.Int64
				admitted []admission
			)
			for range 8 {
				wg.Go(func() {
					gate := fence.New(s) // one gate each, so that only the store is shared
					for range 150 {
						a := admission{begin: stamp.Add(1)}
						a.token = zkrecipes.Token(1 + a.begin/16 + rand.Int64N(20))
						err := gate.Admit(t.Context(), "r", a.token)
						a.end = stamp.Add(1)
						if err == nil {
							mu.Lock()
							admitted = append(admitted, a)
							mu.Unlock()
						}
					}
				})
			}
			wg.Wait()
			assert.Greater(t, len(admitted), 30)
			first, second, found := backwards(admitted)
			assert.False(t, found, "%+v, and then %+v", first, second)
		})
	}
}

// Sections read and write a set while their leases run out. The test counts the lost updates that the package comment
// predicts for a fence that is checked only on the write.
func TestAdmit_LostUpdatesWithAndWithoutTheRead(t *testing.T) {
	admit := func(gate *fence.Gate) func(zkrecipes.Token) error {
		return func(token zkrecipes.Token) error { return gate.Admit(t.Context(), "set", token) }
	}
	fenced := admit(fence.New(fence.NewMemory()))
	sets := map[string]*check.Set{
		"write alone": {OnAdd: admit(fence.New(fence.NewMemory()))},
		"from read":   {OnRead: fenced, OnAdd: fenced},
	}
	lost := make(map[string]int)
	for name, set := range sets {
		for token := zkrecipes.Token(1); token < 500; token += 2 {
			old, err := set.Read(token)
			require.NoError(t, err)
			next, err := set.Read(token + 1) // the lease of the old holder has run out
			require.NoError(t, err)
			if err := set.Add("old", token, old, fmt.Sprint(token)); err != nil {
				require.ErrorIs(t, err, fence.ErrStale)
			}
			require.NoError(t, set.Add("next", token+1, next, fmt.Sprint(token+1)))
		}
		lost[name] = len(check.LostUpdates(set.Updates()))
	}
	assert.Equal(t, map[string]int{"write alone": 250, "from read": 0}, lost)
	assert.Equal(t, 250, sets["from read"].Refused())
}
