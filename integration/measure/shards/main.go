// Package shards measures what recipes/shard costs on a real server, and how fast it is. It prints tables for
// docs/measurements.md.
//
//	go run ./measure shards                    from integration/
//	go run ./measure shards -only moves
//
// "moves" counts what moves and what stops when members join, leave and restart, compared with kazoo's SetPartitioner
// and rendezvous hashing. "rebalance" times a join and a leave, compared with kazoo. "crashes" kills
// members that are processes, makes them leave and restarts them, with three servers: it measures the time until all
// shards are served, and counts requests by kind. "cost" counts requests, watches and memory of many shards. All teams
// wait equally long for more changes, and use the same server. Python with kazoo must be installed.
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

// The numbers of shards in each measurement, of members in cost, and of repetitions in crashes.
const (
	movedShards      = 64
	rebalancedShards = 1000
	crashShards      = 200
	costShards       = 20_000
	costMembers      = 50
	rounds           = 5
	kills            = 10
)

// down is how long a member that restarts is away.
const down = 2 * time.Second

// point is one measurement, on servers of its own.
type point struct {
	name    string
	measure func(ctx context.Context) error
}

var points = []point{
	{"moves", alone(moves)}, {"rebalance", alone(rebalance)}, {"crashes", crashes}, {"cost", alone(cost)},
}

var settings = []zkserver.Option{
	zkserver.WithTickTime(2 * time.Second), zkserver.WithSetting("globalOutstandingLimit", "100000"),
	zkserver.WithJVM("-Xms256m", "-Xmx1g", "-XX:TieredStopAtLevel=4"),
}

// Run runs the command with its flags.
func Run(args []string) error {
	flags := flag.NewFlagSet("shards", flag.ExitOnError)
	only := flags.String("only", "", "measure the points whose name contains `text`")
	member := flags.String("member", "", "be the member `id` of a team of processes, as crashes starts them")
	servers := flags.String("servers", "", "`host:port,...` of the servers of that team")
	_ = flags.Parse(args) // exits on error
	if *member != "" {
		if err := belong(context.Background(), *member, *servers); err != nil {
			return fmt.Errorf("%s: %w", *member, err)
		}
		return nil
	}
	for _, p := range points {
		if !strings.Contains(p.name, *only) {
			continue
		}
		if err := p.measure(context.Background()); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// alone makes a measurement on one server.
func alone(measure func(ctx context.Context, server *zkserver.Server) error) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		server, err := zkserver.Open(settings...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		return measure(ctx, server)
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
