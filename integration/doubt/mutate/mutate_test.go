package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// module is a module with one package: a function, and a test that covers part of what it does.
var module = map[string]string{
	"go.mod": "module " + modulePath + "\n\ngo 1.25.0\n",
	"limit.go": `package limit

const least = 0

var last int

// Limit keeps n between 0 and 10.
func Limit(n int) int {
	last = n
	if n < 0 || n == -1 && n > 5 {
		n = 0
	}
	switch {
	case n >= 10:
		return int(wide(most + least)) // an int64, as the constants have no type
	default:
		return 2*n - n
	}
}
`,
	"wide.go": `package limit

const most = 10

func wide(n int64) int64 { return n }
`,
	"limit_test.go": `package limit

import "testing"

func TestLimit(t *testing.T) {
	for n, want := range map[int]int{-3: 0, 0: 0, 5: 5, 12: 10} {
		if Limit(n) != want {
			t.Errorf("Limit(%d)", n)
		}
	}
}
`,
}

func TestRunner_NoticesWhatATestHolds(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	for name, text := range module {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	in, spec, err := instrument(root, dir, []string{"."})
	require.NoError(t, err)
	r := &runner{root: root, dir: dir, spec: spec}
	require.NoError(t, r.prepare([]string{"."}))
	results := map[string]string{}
	for _, m := range in.mutants {
		results[string(m.kind)+" "+m.code], _ = r.one(m)
	}
	assert.Equal(t, map[string]string{
		"dropped last = n":                survives, // nothing reads it
		"true n < 0 || n == -1 && n > 5":  ".",
		"false n < 0 || n == -1 && n > 5": ".",
		"true n < 0":                      ".",
		"false n < 0":                     ".",
		"bound n < 0":                     survives, // 0 becomes 0
		"true n == -1 && n > 5":           ".",
		"false n == -1 && n > 5":          survives, // it is never true
		"true n == -1":                    ".",
		"false n == -1":                   survives,
		"true n > 5":                      survives,
		"false n > 5":                     survives,
		"bound n > 5":                     survives,
		"dropped n = 0":                   ".",
		"true n >= 10":                    ".",
		"false n >= 10":                   ".",
		"bound n >= 10":                   survives, // no test uses 10, which would give 10
		"off 2*n - n":                     ".",
	}, results)
}

// TestKeys_AreUnique: two equal conditions in one file have separate results.
func TestKeys_AreUnique(t *testing.T) {
	in, _, err := instrument("../../..", t.TempDir(), mutated)
	require.NoError(t, err)
	seen := map[string]mutant{}
	for _, m := range in.mutants {
		require.Zero(t, seen[m.key()], m)
		seen[m.key()] = m
	}
	require.NotEmpty(t, seen)
}

func TestEquivalents_AreWellFormed(t *testing.T) {
	_, err := equivalents()
	require.NoError(t, err)
}
