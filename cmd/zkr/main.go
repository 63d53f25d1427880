// Command zkr runs any program under a lock in ZooKeeper, or as the leader. It stops the program before another holder
// can acquire the lock.
//
//	zkr lock /jobs/nightly -- /usr/local/bin/nightly --full
//
// The help of each verb starts with an example.
package main

import (
	"os"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/bootclock"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
)

func main() {
	if child.GuardArg != "" && len(os.Args) > 1 && os.Args[1] == child.GuardArg {
		child.Guard(os.Args[2:], bootclock.Now)
		return
	}
	os.Exit(newApp(os.Stdin, os.Stdout, os.Stderr).run(os.Args[1:]))
}
