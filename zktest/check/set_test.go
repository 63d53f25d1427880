package check_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// fenced returns a fence for one set.
func fenced(t *testing.T) func(zkrecipes.Token) error {
	gate := fence.New(fence.NewMemory())
	return func(token zkrecipes.Token) error { return gate.Admit(t.Context(), "set", token) }
}

func TestSet_StaleSection(t *testing.T) {
	admit := fenced(t)
	for name, tc := range map[string]struct {
		set     *check.Set
		lost    int
		refused int
	}{
		"no fence":                  {&check.Set{}, 1, 0},
		"fence on the write alone":  {&check.Set{OnAdd: fenced(t)}, 1, 0},
		"fence from the first read": {&check.Set{OnRead: admit, OnAdd: admit}, 0, 1},
	} {
		// The section of a holds token 1, is frozen after its read, and wakes up in the section of b.
		set := tc.set
		stale, err := set.Read(1)
		require.NoError(t, err)
		current, err := set.Read(2)
		require.NoError(t, err)
		errA := set.Add("a", 1, stale, "x")
		require.NoError(t, set.Add("b", 2, current, "y"))

		lost := check.LostUpdates(set.Updates())
		assert.Len(t, lost, tc.lost, name)
		assert.Equal(t, tc.refused, set.Refused(), name)
		assert.Equal(t, tc.refused == 1, errors.Is(errA, fence.ErrStale), name)
		if tc.lost == 1 {
			assert.EqualError(t, lost[0], `lost update: "x" added by a (token 1) to version 0, `+
				`wiped out by "y" added by b (token 2) to version 0`, name)
		}
	}
	var set check.Set
	require.ErrorContains(t, set.Add("a", 1, 1, "x"), "version 1 was never read")
}

func TestLostUpdates_RejectsCorruptedHistory(t *testing.T) {
	updates := make([]check.Update, 100)
	for i := range updates {
		updates[i] = check.Update{Client: "c", Element: fmt.Sprint(i), Base: i}
	}
	require.Empty(t, check.LostUpdates(updates))
	updates[60].Base = 57 // based on a version that lacks three
	lost := check.LostUpdates(updates)
	require.Len(t, lost, 3)
	for i, l := range lost {
		assert.Equal(t, fmt.Sprint(59-i), l.Lost.Element)
		assert.Equal(t, "60", l.By.Element)
	}
}

func FuzzLostUpdates(f *testing.F) {
	f.Add([]byte{0, 0, 0})
	f.Add([]byte{0, 1, 2, 1, 3, 2, 6})
	f.Fuzz(func(t *testing.T, bases []byte) {
		// The naive way: keep the whole content of every version.
		contents := [][]string{nil}
		var updates []check.Update
		for i, b := range bases[:min(len(bases), 64)] {
			u := check.Update{Element: fmt.Sprint(i), Base: int(b) % len(contents)}
			updates = append(updates, u)
			contents = append(contents, append(slices.Clone(contents[u.Base]), u.Element))
		}
		var want, got []string
		final := contents[len(contents)-1]
		for _, u := range slices.Backward(updates) {
			if !slices.Contains(final, u.Element) {
				want = append(want, u.Element)
			}
		}
		for _, l := range check.LostUpdates(updates) {
			got = append(got, l.Lost.Element)
			if !slices.Contains(final, l.By.Element) {
				t.Fatalf("%v: blames an update that is lost itself", l)
			}
		}
		if !slices.Equal(want, got) {
			t.Fatalf("lost %v, by hand %v, bases %v", got, want, bases)
		}
	})
}
