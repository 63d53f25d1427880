// Command firststeps prints the time once a second, in one process at a time.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, "localhost:2181")
	interrupted := ctx.Err() != nil // not a failure
	stop()
	if err != nil && !interrupted {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, servers string) error {
	dialing, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := conn.Dial(dialing, servers)
	if err != nil {
		return err
	}
	defer client.Close()

	m, err := mutex.New(client, "/firststeps/clock")
	if err != nil {
		return err
	}
	fmt.Println("waiting for the lock")
	return m.Do(ctx, tick)
}

// tick prints the time until its context ends.
func tick(ctx context.Context, h *zkrecipes.Hold) error {
	fmt.Println("the lock is ours, token", h.Token())
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-second.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // checks the clock: the process may have been frozen
			return context.Cause(ctx)
		}
		fmt.Println(time.Now().Format(time.TimeOnly))
	}
}
