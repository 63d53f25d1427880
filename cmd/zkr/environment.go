package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/supervise"
)

// unknownVariables returns the ZKR_ variables that no flag reads, so that a misspelled one is reported instead of being
// ignored silently. unread are those of flags that are only read from the command line.
func unknownVariables(root *cobra.Command, environment []string) (unknown, unread []string) {
	known := append([]string{"ZKR_LEADER"}, supervise.Variables...) // leader --exec sets ZKR_LEADER for its hook
	var flags []string
	note := func(f *pflag.Flag) { known, flags = append(known, envName(f)), append(flags, variable(f)) }
	root.PersistentFlags().VisitAll(note)
	for _, verb := range root.Commands() {
		verb.Flags().VisitAll(note)
	}
	for _, entry := range environment {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case !strings.HasPrefix(name, "ZKR_") || slices.Contains(known, name):
		case slices.Contains(flags, name):
			unread = append(unread, name)
		default:
			unknown = append(unknown, name)
		}
	}
	return unknown, unread
}
