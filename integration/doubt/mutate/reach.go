package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// load loads the measurements of an earlier run.
func (r *runner) load(file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &r.measured)
}

func (r *runner) save(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.Marshal(r.measured)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// unreached lists the mutants that are not equivalent and would change nothing in any test.
func (r *runner) unreached(todo []mutant) error {
	equal, err := equivalents()
	if err != nil {
		return err
	}
	for _, m := range todo {
		if len(r.reachedBy[m.id]) == 0 && !equal[m.key()] {
			fmt.Println(m)
		}
	}
	return nil
}
