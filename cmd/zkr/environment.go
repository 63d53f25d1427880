package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/supervise"
)

// unknownVariables returns the ZKR_ variables that no flag reads, so that a misspelled one is reported instead of being
// ignored silently.
func unknownVariables(root *cobra.Command, environment []string) (unknown []string) {
	known := append([]string{"ZKR_LEADER"}, supervise.Variables...) // leader --exec sets ZKR_LEADER for its hook
	note := func(f *pflag.Flag) { known = append(known, envName(f)) }
	root.PersistentFlags().VisitAll(note)
	for _, verb := range root.Commands() {
		verb.Flags().VisitAll(note)
	}
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "ZKR_") && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
