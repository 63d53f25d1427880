// Package shards measures what recipes/shard costs on a real server, and how fast it is. It prints tables for
// docs/measurements.md.
//
//	go run ./measure shards                    from integration/
//	go run ./measure shards -only moves
//
// "moves" counts what moves and what stops when members join, leave and restart, compared with kazoo's SetPartitioner
// and rendezvous hashing. "rebalance" times a join and a leave, compared with kazoo. "losses" measures the time from a
// crash or a leave until all shards are served. "crashes" does the same with members that are processes, which it
// kills, with three servers, and counts their requests by kind. "cost" counts requests, watches and memory of many
// shards. All teams wait equally long for more changes, and use the same server. Python with kazoo must be installed.
package shards

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// settle is how long a team waits for more changes. kazoo counts whole seconds.
const settle = time.Second

// timeout is the session timeout of all members.
const timeout = 10 * time.Second

type config struct {
	moves, rebalance, losses int // shards
	shards, members          int // for cost
	rounds, kills            int
	down                     time.Duration
	python, only             string
	member, servers          string // for a member that is a process
}

// point is one measurement, on servers of its own.
type point struct {
	name    string
	measure func(ctx context.Context, c config) error
}

var points = []point{{"moves", alone(moves)}, {"rebalance", alone(rebalance)}, {"losses", alone(losses)},
	{"crashes", crashes}, {"cost", alone(cost)}}

var settings = []zkserver.Option{
	zkserver.WithTickTime(2 * time.Second), zkserver.WithSetting("globalOutstandingLimit", "100000"),
	zkserver.WithJVM("-Xms256m", "-Xmx1g", "-XX:TieredStopAtLevel=4"),
}

// Run runs the command with its flags.
func Run(args []string) error {
	flags := flag.NewFlagSet("shards", flag.ExitOnError)
	var c config
	flags.StringVar(&c.only, "only", "", "measure the points whose name contains `text`")
	flags.IntVar(&c.moves, "moves", 64, "`shards` of the table of moves")
	flags.IntVar(&c.rebalance, "rebalance", 1000, "`shards` of a join and a leave")
	flags.IntVar(&c.losses, "losses", 200, "`shards` of crashes and leaves")
	flags.IntVar(&c.rounds, "rounds", 5, "how often a crash and a leave are timed")
	flags.IntVar(&c.kills, "kills", 10, "how often a process is killed")
	flags.IntVar(&c.shards, "shards", 20_000, "`shards` of the cost")
	flags.IntVar(&c.members, "members", 50, "members of the cost")
	flags.DurationVar(&c.down, "down", 2*time.Second, "how long a member is away that restarts")
	flags.StringVar(&c.python, "python", "/usr/bin/python3", "Python that has kazoo")
	flags.StringVar(&c.member, "member", "", "be the member `id` of a team of processes, as crashes starts them")
	flags.StringVar(&c.servers, "servers", "", "`host:port,...` of the servers of that team")
	_ = flags.Parse(args) // exits on error
	if c.member != "" {
		points = []point{{c.member, belong}}
		c.only = c.member
	}
	for _, p := range points {
		if !strings.Contains(p.name, c.only) {
			continue
		}
		if err := p.measure(context.Background(), c); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// alone makes a measurement on one server.
func alone(measure func(ctx context.Context, server *zkserver.Server, c config) error) func(context.Context,
	config) error {
	return func(ctx context.Context, c config) (err error) {
		server, err := zkserver.Open(settings...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		return measure(ctx, server, c)
	}
}

// names returns n names of shards.
func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("part-%05d", i)
	}
	return list
}
