// Command beat is the program that zkr runs on Windows. It starts itself again, as detached from zkr as possible. Both
// send a sign of life to an address every few milliseconds. The first byte of the answer is the process's exit status.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"time"
)

func main() {
	fmt.Fprintln(os.Stderr, "beat:", run(os.Args[1], os.Args[2]))
	os.Exit(1)
}

// run returns only if it fails.
func run(address, role string) error {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt)
	link, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(link, "%s\t%d\t%s\n", role, os.Getppid(), os.Getenv("ZKR_STATE")); err != nil {
		return err
	}
	if role == "program" {
		if err := startDetached(os.Args[0], address, "descendant"); err != nil {
			return err
		}
	}
	status := make(chan byte)
	go func() { // until the process ends
		order := []byte{1}
		_, _ = io.ReadFull(link, order) // it stays 1 if no order comes
		status <- order[0]
	}()
	for next := time.Tick(2 * time.Millisecond); ; {
		word := "beat"
		select {
		case code := <-status:
			os.Exit(int(code))
		case <-asked:
			word = "asked to stop"
		case <-next:
		}
		if _, err := fmt.Fprintln(link, word); err != nil {
			return err
		}
	}
}
