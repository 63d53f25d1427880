package shards

import (
	"context"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// change is what happens to a team of four members.
type change struct {
	name string
	// before and after are the members.
	before, after []string
	do            func(ctx context.Context, t team, settled func(members []string) error) error
}

var (
	four = []string{"a", "b", "c", "d"}
	five = []string{"a", "b", "c", "d", "e"}

	eight = []string{"a", "b", "c", "d", "e", "f", "g", "h"}
)

func changes(down time.Duration) []change {
	return []change{
		{"a fifth member joins", four, five, func(ctx context.Context, t team,
			_ func([]string) error,
		) error {
			return t.join(ctx, "e")
		}},
		{
			"the fifth member leaves", five, four,
			func(ctx context.Context, t team, _ func([]string) error) error { return t.leave(ctx, "e") },
		},
		{
			fmt.Sprintf("each of four restarts, down for %v", down), four, four,
			func(ctx context.Context, t team, settled func([]string) error) error {
				for _, id := range four {
					if err := t.stop(ctx, id); err != nil {
						return err
					}
					time.Sleep(down)
					if err := t.join(ctx, id); err != nil {
						return err
					}
					if err := settled(four); err != nil {
						return err
					}
				}
				return nil
			},
		},
	}
}

// contest puts teams through changes, one team after another.
func contest(ctx context.Context, teams []entrant, all []change, shards int,
	tell func(team string, c change, took time.Duration, n count),
) error {
	for _, e := range teams {
		tally := newTally(names(shards))
		team, err := e.enter(tally)
		if err != nil {
			return err
		}
		err = play(ctx, e.name, team, tally, all, tell)
		team.close()
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

type entrant struct {
	name  string
	enter func(*tally) (team, error)
}

func play(ctx context.Context, name string, t team, all *tally, list []change,
	tell func(team string, c change, took time.Duration, n count),
) error {
	settled := func(members []string) error {
		_, err := all.settled(members)
		return err
	}
	for _, id := range four {
		if err := t.join(ctx, id); err != nil {
			return err
		}
	}
	for _, c := range list {
		if err := settled(c.before); err != nil {
			return err
		}
		all.reset()
		began := time.Now()
		if err := c.do(ctx, t, settled); err != nil {
			return err
		}
		at, err := all.settled(c.after)
		if err != nil {
			return err
		}
		tell(name, c, at.Sub(began), all.counted())
	}
	return nil
}

func entrants(server *zkserver.Server) []entrant {
	return []entrant{
		{"shard", func(t *tally) (team, error) { return newOurs(server, t, "/ours", time.Minute), nil }},
		{"kazoo's SetPartitioner", func(t *tally) (team, error) { return newKazoo(server, t) }},
		{"rendezvous hashing", func(t *tally) (team, error) { return &hashing{crew{server, t, map[string]*member{}}}, nil }},
	}
}

// moves counts what moves and what stops.
func moves(ctx context.Context, server *zkserver.Server) error {
	fmt.Printf(
		"moves of %d shards\n\n"+
			"| | | moved to another member | stopped | served twice at a time |\n| --- | --- | --- | --- | --- |\n", movedShards)
	err := contest(ctx, entrants(server), changes(down), movedShards,
		func(team string, c change, _ time.Duration, n count) {
			fmt.Printf("| %s | %s | %d | %d | %d |\n", c.name, team, n.moved, n.stopped, n.doubled)
		})
	fmt.Println()
	return err
}

// rebalance times a join and a leave.
func rebalance(ctx context.Context, server *zkserver.Server) error {
	fmt.Printf(
		"rebalance of %d shards\n\n"+
			"| | | until the last shard is served | stopped | a stopped shard was not served for | at most |\n"+
			"| --- | --- | --- | --- | --- | --- |\n", rebalancedShards)
	err := contest(ctx, entrants(server)[:2], changes(0)[:2], rebalancedShards,
		func(team string, c change, took time.Duration, n count) {
			fmt.Printf("| %s | %s | %v | %d | %v | %v |\n", c.name, team, short(took), n.stopped,
				short(n.idle/time.Duration(max(1, n.stopped))), short(n.longest))
		})
	fmt.Println()
	return err
}

func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
