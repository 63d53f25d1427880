package main

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionPatience is how long a shell waits for the servers while completing a path.
const completionPatience = time.Second

// completionMost bounds the names returned to a shell, since a node may have many thousands.
const completionMost = 500

// unquoted matches names that every shell reads the same without quotes.
var unquoted = regexp.MustCompile(`^[\w.:@%+=-]+$`)

// completePaths makes shells complete lock paths from the nodes in ZooKeeper.
func (a *app) completePaths(root *cobra.Command) {
	for _, verb := range root.Commands() {
		if strings.Contains(verb.Use, "PATH") && verb.Name() != "check" { // check takes the path as a flag
			verb.ValidArgsFunction = func(cmd *cobra.Command, args []string,
				typed string,
			) ([]cobra.Completion, cobra.ShellCompDirective) {
				switch {
				case len(args) == 0, strings.Contains(cmd.Use, "PATH..."):
					return a.completePath(cmd, args, typed)
				case strings.Contains(cmd.Use, "PROGRAM"):
					return nil, cobra.ShellCompDirectiveDefault
				default:
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
			}
		}
		for _, flag := range []string{"path", "elect", "observe", "ui-root", "limit-node"} {
			if verb.Flags().Lookup(flag) != nil {
				_ = verb.RegisterFlagCompletionFunc(flag, a.completePath) // fails if the verb lacks the flag
			}
		}
	}
}

// completePath lists the nodes that start with what was typed. It reports no errors, since they would garble the
// command line.
func (a *app) completePath(
	cmd *cobra.Command, _ []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	slash := strings.LastIndexByte(typed, '/')
	if slash < 0 {
		return []cobra.Completion{"/"}, directive
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	if readEnv(cmd) != nil {
		return nil, directive
	}
	a.log = silent
	client, err := a.dial(ctx)
	if err != nil {
		return nil, directive
	}
	defer client.Close()
	names, err := client.Children(ctx, cmp.Or(typed[:slash], "/"))
	if err != nil {
		return nil, directive
	}
	slices.Sort(names)
	var paths []cobra.Completion
	for _, name := range names {
		path := typed[:slash+1] + name
		if len(paths) == completionMost {
			break
		}
		// A contender is not a lock.
		if strings.HasPrefix(path, typed) && unquoted.MatchString(name) && number(name) == "" && path != "/zookeeper" {
			paths = append(paths, path)
		}
	}
	return paths, directive
}
