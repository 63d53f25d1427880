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

// completionPatience is how long a shell waits for the servers when a path is to be completed.
const completionPatience = time.Second

// completionMost is how many names a shell gets at most: a node may have many thousands.
const completionMost = 500

// unquoted are the names that mean the same to all shells without quotes.
var unquoted = regexp.MustCompile(`^[\w.:@%+=-]+$`)

// completePaths lets shells complete what is a path of a lock, by what is in ZooKeeper.
func (a *app) completePaths(root *cobra.Command) {
	for _, verb := range root.Commands() {
		if strings.Contains(verb.Use, "PATH") && verb.Name() != "check" { // which takes it as a flag
			verb.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
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
				_ = verb.RegisterFlagCompletionFunc(flag, a.completePath) // it fails for a flag that is not there
			}
		}
	}
}

// completePath lists the nodes that begin with what was typed. A failure shows nothing: it would disturb the line that is typed.
func (a *app) completePath(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
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
		if strings.HasPrefix(path, typed) && unquoted.MatchString(name) && number(name) == "" && path != "/zookeeper" { // a contender is not a lock
			paths = append(paths, path)
		}
	}
	return paths, directive
}
