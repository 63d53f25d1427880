package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/supervise"
)

// unknownVariables are those that look as if they set a flag of a verb, and set none. A misspelt one would do nothing, in silence.
func unknownVariables(root *cobra.Command, environment []string) (unknown []string) {
	known := append([]string{"ZKR_LEADER"}, supervise.Variables...) // a hook of leader --exec has the first
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
