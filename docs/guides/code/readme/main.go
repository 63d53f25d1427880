// Command readme is the program in README.md: it runs a command under a lock.
package main

import (
	"context"
	"log"
	"os/exec"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

func main() {
	if err := run(context.Background(), "localhost:2181"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, servers string) error {
	client, err := conn.Dial(ctx, servers)
	if err != nil {
		return err
	}
	defer client.Close()
	m, err := mutex.New(client, "/locks/invoices")
	if err != nil {
		return err
	}
	return m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
		log.Println("locked, fencing token", h.Token())
		return exec.CommandContext(ctx, "sleep", "10").Run() // killed if the lock is lost
	})
}
