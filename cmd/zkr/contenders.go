package main

import (
	"cmp"
	"slices"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/layout"
)

// contenders returns the names that look like contenders of a queue, whatever library created them, sorted by sequence
// number. Such names end with the ten digits that the server assigned.
func contenders(names []string) []string {
	queue := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return number(name) == "" })
	slices.SortFunc(queue, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return queue
}

// kazooLeases returns the names of the leases that kazoo itself has created, which are only UUIDs. Other nodes may have
// such names, too.
func kazooLeases(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !survey.NamesKazooLease(name) })
}

// number returns the ten digits at the end of a name, or "" if there are none.
func number(name string) string {
	if !layout.LooksSequential(name) {
		return ""
	}
	return name[len(name)-10:]
}
