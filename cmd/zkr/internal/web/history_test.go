package web

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kept returns the words in a file of changes.
func kept(t *testing.T, path string) (words []string) {
	t.Helper()
	h, c, err := openHistory(path)
	require.NoError(t, err)
	h.close()
	for _, one := range c.kept {
		words = append(words, one.Words)
	}
	return words
}

// TestHistory_IsBounded: the file does not grow without bound, and a broken last line costs only that line.
func TestHistory_IsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "changes")
	h, c, err := openHistory(path)
	require.NoError(t, err)
	for i := range 6 * keptChanges {
		before := c
		c = c.with(change{At: time.Now(), Path: fmt.Sprint("/", i), Words: fmt.Sprint("\u202e", i)})
		require.NoError(t, h.add(c, c.since(before)))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(text), "\n"), 4*keptChanges)
	require.Len(t, kept(t, path), keptChanges)
	require.Equal(t, fmt.Sprint("\u202e", 6*keptChanges-1), kept(t, path)[keptChanges-1])
	require.NoError(t, os.WriteFile(path, append(text, `{"at":"2026-`...), 0o600))
	require.Len(t, kept(t, path), keptChanges)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	require.NoError(t, err)
	require.Empty(t, left, "no file stays beside it")
}

// TestHistory_IsWrittenAgainAfterAFailure: changes that could not be written are written with the next change.
func TestHistory_IsWrittenAgainAfterAFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "changes")
	h, c, err := openHistory(path)
	require.NoError(t, err)
	add := func(words string) error {
		before := c
		c = c.with(change{Words: words})
		return h.add(c, c.since(before))
	}
	require.NoError(t, add("one"))
	require.NoError(t, h.file.Close()) // simulates a failing disk
	require.Error(t, add("two"))
	require.NoError(t, add("three"))
	require.Equal(t, []string{"one", "two", "three"}, kept(t, path))
}

// TestHistory_TakesNoOtherFile: a wrong file name destroys nothing.
func TestHistory_TakesNoOtherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passwd")
	require.NoError(t, os.WriteFile(path, []byte("root:x:0\n"), 0o600))
	_, _, err := openHistory(path)
	require.ErrorContains(t, err, "was not written by zkr serve")
	_, _, err = openHistory(os.DevNull)
	require.ErrorContains(t, err, "want a regular file")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "root:x:0\n", string(text))
}
