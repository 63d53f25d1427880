package main

import "testing"

// The mutations must follow the code: here only that each still finds its place, `make canaries` does the rest.
func TestMutants_FindTheirPlace(t *testing.T) {
	r := newRunner("../..", t.TempDir())
	names := map[string]bool{}
	for _, m := range mutants {
		if _, err := r.overlay(m); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if names[m.name] || len(m.tests) == 0 {
			t.Errorf("%s: named twice, or without a test", m.name)
		}
		names[m.name] = true
	}
}
