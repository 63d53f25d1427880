package scale

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

// storm: all connections are cut, and none can be made for four seconds. Then all clients reconnect at once. How many
// of their holds do they lose?
func storm(ctx context.Context, server *zkserver.Server) error {
	const ofEach, outage = 10, 4 * time.Second
	var t tap
	n := 1000
	all, err := dialMany(ctx, server, &t, n)
	defer closeAll(all)
	if err != nil {
		return err
	}
	holds := make([][]*zkrecipes.Hold, n)
	if err := each(n, 20, func(i int) (err error) {
		holds[i], err = take(ctx, all[i], fmt.Sprintf("/storm/%d", i), ofEach)
		return err
	}); err != nil {
		return err
	}
	lost := func() (lost int) {
		for _, mine := range holds {
			for _, h := range mine {
				if h.Err() != nil {
					lost++
				}
			}
		}
		return lost
	}
	time.Sleep(timeout / 2) // until their proofs are as fresh as usual
	before := lost()
	t.outage(outage)
	time.Sleep(2 * timeout)
	tell("storm", "%6d clients with %d holds each, an outage of %v: %d holds lost, and %d before it", n, ofEach, outage,
		lost()-before, before)
	return nil
}

// observers: one of many candidates resigns while many clients watch the election.
func observers(ctx context.Context, server *zkserver.Server) error {
	const path = "/observers"
	var watching, standing tap
	n := 1000
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	candidate, err := dial(ctx, server, &standing)
	if err != nil {
		return err
	}
	defer func() { _ = candidate.Close() }() // it never fails
	terms := make(chan *election.Term, n)
	for range n {
		e, err := election.New(candidate, path)
		if err != nil {
			return err
		}
		running.Go(func() {
			if term, err := e.Campaign(ctx); err == nil {
				terms <- term
			}
		})
	}
	term := <-terms
	if err := awaitChildren(ctx, candidate, path, n); err != nil {
		return err
	}
	all, err := dialMany(ctx, server, &watching, n)
	defer closeAll(all)
	if err != nil {
		return err
	}
	var seen atomic.Int64 // leaders that observers saw
	for _, c := range all {
		running.Go(func() { observe(ctx, c, path, &seen) })
	}
	for resignation := range 6 {
		if err := told(ctx, &seen, int64(n*(resignation+1))); err != nil {
			return err
		}
		time.Sleep(time.Second)
		bytes, asked, began := watching.bytes.Load(), watching.asked.Load(), time.Now()
		if err := term.Release(ctx); err != nil {
			return err
		}
		term = <-terms
		granted := time.Since(began)
		if err := told(ctx, &seen, int64(n*(resignation+2))); err != nil {
			return err
		}
		tell("observers",
			"%6d of %d candidates: %6.2f MB and %d requests at one resignation, the next grant after %v, all know it after %v",
			n, n,
			float64(watching.bytes.Load()-bytes)/1e6, watching.asked.Load()-asked, granted.Round(time.Millisecond),
			time.Since(began).Round(time.Millisecond))
	}
	return nil
}

func observe(ctx context.Context, c *conn.Client, path string, seen *atomic.Int64) {
	e, err := election.New(c, path)
	if err != nil {
		return // the path is valid
	}
	var last zkrecipes.Token
	for view, err := range e.Watch(ctx) {
		if err == nil && view.Exists && view.Leader.Token != last {
			last = view.Leader.Token
			seen.Add(1)
		}
	}
}

func told(ctx context.Context, seen *atomic.Int64, n int64) error {
	for start := time.Now(); seen.Load() < n; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil || time.Since(start) > 2*time.Minute {
			return fmt.Errorf("the observers were told of %d leaders, want %d", seen.Load(), n)
		}
	}
	return nil
}
