package main

import (
	"cmp"
	"slices"

	"github.com/zkrecipes/zkrecipes/layout"
)

// contenders picks the names that look like contenders of a queue, of whatever library, in the order of their numbers: they
// end in the ten digits that the server gave.
func contenders(names []string) []string {
	queue := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return number(name) == "" })
	slices.SortFunc(queue, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return queue
}

// number is the ten digits at the end of a name, or nothing.
func number(name string) string {
	if !layout.LooksSequential(name) {
		return ""
	}
	return name[len(name)-10:]
}
