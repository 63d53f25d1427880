//go:build unix

package main

import (
	"fmt"
	"os"
	"os/signal"
	"time"
)

// countInterrupts is a program for zkr to run. It reports each interrupt and exits with 5 half a second after the first
// one.
func countInterrupts() {
	interrupts := make(chan os.Signal, 10)
	signal.Notify(interrupts, os.Interrupt)
	fmt.Println("ready")
	var end <-chan time.Time
	for n := 1; ; n++ {
		select {
		case <-interrupts:
			fmt.Println("interrupt", n)
		case <-end:
			os.Exit(5)
		}
		if end == nil {
			end = time.After(500 * time.Millisecond)
		}
	}
}
