package main

import "testing"

// The edits must follow the code. This only checks that each still applies; `make canaries` does the rest.
func TestCanaries_FindTheirPlace(t *testing.T) {
	r := &runner{root: "../../..", dir: t.TempDir()}
	names := map[string]bool{}
	for _, c := range canaries {
		if _, err := r.overlay(c); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if names[c.name] || len(c.single()) == 0 {
			t.Errorf("%s: named twice, or without a test", c.name)
		}
		names[c.name] = true
	}
}
