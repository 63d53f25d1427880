// Command measure compares and measures on real servers, and prints tables. Each subcommand describes its flags with
// -h.
//
//	go run ./measure bench     locks, elections and counters, compared with other libraries; from integration/
//	go run ./measure caches    cache.Tree, compared with CuratorCache
//	go run ./measure scale     what many waiters, holds, clients and observers cost
package main

import (
	"fmt"
	"os"

	"github.com/zkrecipes/zkrecipes/integration/measure/bench"
	"github.com/zkrecipes/zkrecipes/integration/measure/caches"
	"github.com/zkrecipes/zkrecipes/integration/measure/scale"
)

var commands = map[string]func(args []string) error{"bench": bench.Run, "caches": caches.Run, "scale": scale.Run}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "measure: want bench, caches or scale, with its flags")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "measure: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
