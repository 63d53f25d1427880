// Command standin is started in the place of zkServer.sh, or of the java that runs a ZooKeeper, by suites that start
// servers of their own. It asks the ensembles of the test process for a server with the same configuration file, and is
// that server as long as it lives.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

// Request is what it asks for.
type Request struct {
	Config string // path of zoo.cfg
	Flags  string // of the command line and of SERVER_JVMFLAGS
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(1)
	}
}

func run() error {
	nc, err := net.Dial("unix", os.Getenv("FOREIGN_ENSEMBLES"))
	if err != nil {
		return err
	}
	request := Request{
		Config: os.Args[len(os.Args)-1],
		Flags:  strings.Join(os.Args, " ") + " " + os.Getenv("SERVER_JVMFLAGS"),
	}
	if err := json.NewEncoder(nc).Encode(request); err != nil {
		return err
	}
	why, err := io.ReadAll(nc) // waits: the server ends with this process, or says why it cannot run
	if len(why) > 0 {
		return fmt.Errorf("%s", why)
	}
	return err
}
