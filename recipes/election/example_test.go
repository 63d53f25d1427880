package election_test

import (
	"context"
	"fmt"

	"github.com/zkrecipes/zkrecipes/recipes/election"
)

func ExampleElection_Run() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, done := connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	e, err := election.New(client, "/app/leader")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = e.Run(ctx, func(ctx context.Context, _ *election.Term) error {
		leader, err := e.Leader(ctx)
		if err != nil {
			return err
		}
		fmt.Println(leader.Name, "leads")
		stop() // as a signal would
		<-ctx.Done()
		fmt.Println("stops leading")
		return nil
	})
	fmt.Println(err)
	// Output:
	// worker-1 leads
	// stops leading
	// context canceled
}

func ExampleElection_Campaign() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	e, err := election.New(client, "/app/leader", election.WithData([]byte("node-7")))
	if err != nil {
		fmt.Println(err)
		return
	}
	term, err := e.Campaign(ctx) // blocks until this candidate leads
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("leads:", term.Err() == nil)
	fmt.Println(term.Release(ctx))
	<-term.Done() // also closed if the term is lost; context.Cause(term.Context()) returns why
	fmt.Println(context.Cause(term.Context()))
	// Output:
	// leads: true
	// <nil>
	// released
}

func ExampleElection_Watch() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	e, err := election.New(client, "/app/leader")
	if err != nil {
		fmt.Println(err)
		return
	}
	var term *election.Term
	for now, err := range e.Watch(ctx) {
		switch {
		case err != nil: // always the last value
			fmt.Println(err)
			return
		case !now.Current: // the leader may have changed since now.AsOf; a current view follows
			continue
		case now.Exists:
			fmt.Println(now.Leader.Name, "leads")
			err = term.Release(ctx)
		case term == nil:
			fmt.Println("no leader yet")
			term, err = e.Campaign(ctx)
		default:
			fmt.Println("no leader any more")
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// no leader yet
	// worker-1 leads
	// no leader any more
}

// The leader hands over to a candidate of its choice, ahead of the next in the queue.
func ExampleElection_Appoint() {
	ctx := context.Background()
	client, done := connect(ctx)
	defer done()
	terms := make(chan *election.Term, 3)
	stand := func(name string, place int) *election.Election {
		e, err := election.New(client, "/app/leader", election.WithData([]byte(name)), election.WithStandBack())
		if err != nil {
			panic(err)
		}
		go func() { // as another process would
			if t, err := e.Campaign(ctx); err == nil {
				fmt.Println(name, "leads")
				terms <- t
			}
		}()
		for standing := 0; standing < place; {
			queue, err := e.Queue(ctx)
			if err != nil {
				panic(err)
			}
			standing = len(queue)
		}
		return e
	}
	e := stand("first", 1)
	t := <-terms
	stand("old release", 2)
	stand("new release", 3)
	candidates, err := e.Queue(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("appoint:", e.Appoint(ctx, t, candidates[2]))
	fmt.Println("release:", t.Release(ctx))
	fmt.Println((<-terms).Release(ctx))
	<-terms
	// Unordered output:
	// first leads
	// appoint: <nil>
	// release: <nil>
	// new release leads
	// <nil>
	// old release leads
}
