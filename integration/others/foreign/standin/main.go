// Command standin replaces zkServer.sh, or the java that runs a ZooKeeper, for suites that start servers of their own.
// It requests a server with the same configuration file from the test process's ensembles, and forwards its clients to
// that server. It prints the address it listens on. If it is killed, its clients see what they would see if a server
// were killed.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

// request is the request to the ensembles.
type request struct {
	Config string // path of zoo.cfg
	Flags  string // of the command line, each on its own line, and of SERVER_JVMFLAGS
}

// answer is the answer, or the reason why there is no server.
type answer struct {
	Listen, Server string
	Error          string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(1)
	}
}

func run() error {
	ensembles, err := net.Dial("unix", os.Getenv("FOREIGN_ENSEMBLES"))
	if err != nil {
		return err
	}
	r := request{
		Config: os.Args[len(os.Args)-1],
		Flags:  strings.Join(os.Args, "\n") + "\n" + os.Getenv("SERVER_JVMFLAGS"),
	}
	if err := json.NewEncoder(ensembles).Encode(r); err != nil {
		return err
	}
	var a answer
	if err := json.NewDecoder(ensembles).Decode(&a); err != nil {
		return err
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	l, err := net.Listen("tcp", a.Listen)
	if err != nil {
		return err
	}
	fmt.Println("listening", l.Addr())
	go relay(l, a.Server)
	_, _ = ensembles.Read(make([]byte, 1)) // the connection keeps the server alive; without the ensembles there is none
	return nil
}

// relay connects incoming clients to the server.
func relay(l net.Listener, addr string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", addr)
		if err != nil {
			_ = client.Close()
			continue
		}
		go pass(client, server)
	}
}

// pass copies bytes in both directions. A client that has only closed its sending side still gets the answer.
func pass(client, server net.Conn) {
	go func() {
		_, err := io.Copy(server, client)
		if half, ok := server.(*net.TCPConn); err == nil && ok {
			err = half.CloseWrite()
		}
		if err != nil {
			_ = server.Close()
		}
	}()
	_, _ = io.Copy(client, server) // either end may go first
	_ = client.Close()
	_ = server.Close()
}
