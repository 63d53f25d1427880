package shards

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

// crashes kills members that are processes, makes them leave, and restarts them, with three servers. In between, it
// counts their requests.
func crashes(ctx context.Context) (err error) {
	ensemble, err := zkserver.OpenEnsemble(3, settings...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ensemble.Close()) }()
	client, err := conn.Dial(ctx, ensemble.Addr(), conn.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer client.Close()
	leader, err := election.New(client, root+"/election")
	if err != nil {
		return err
	}
	t := &processes{servers: ensemble.Addr(), tally: newTally(names(crashShards)), members: map[string]*process{}}
	defer t.close()
	for _, id := range eight {
		if err := t.join(id); err != nil {
			return err
		}
	}
	if _, err := t.tally.settled(eight); err != nil {
		return err
	}
	fmt.Printf("%d members in processes of their own, %d shards, three servers, session timeout %v\n\n", len(eight),
		crashShards, timeout)
	run := &trial{processes: t, ensemble: ensemble, leader: leader}
	for _, step := range []func(context.Context) error{run.quiet, run.crash, run.depart, run.restart} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// trial is what happens to a team of processes.
type trial struct {
	*processes
	ensemble *zkserver.Ensemble
	leader   *election.Election
}

// quiet counts watches, and the requests of the members while nothing happens.
func (t *trial) quiet(context.Context) error {
	watches := 0
	for _, s := range t.ensemble.Servers {
		n, err := s.Figures()
		if err != nil {
			return err
		}
		watches += n["zk_watch_count"]
	}
	fmt.Printf("* watches of all members and shards: %d\n", watches)
	if _, err := t.asked(); err != nil {
		return err
	}
	time.Sleep(2 * timeout)
	sent, err := t.asked()
	if err != nil {
		return err
	}
	fmt.Printf("* requests in %v of quiet, without pings: %s\n", 2*timeout, inWords(sent))
	return nil
}

// inWords formats how many requests of each kind there were.
func inWords(sent map[string]int) string {
	var said []string
	all := 0
	for _, op := range slices.Sorted(maps.Keys(sent)) {
		said = append(said, fmt.Sprintf("%s %d", op, sent[op]))
		all += sent[op]
	}
	return fmt.Sprintf("%d (%s)", all, strings.Join(said, ", "))
}

// without returns all members but one.
func without(id string) []string {
	return slices.DeleteFunc(slices.Clone(eight), func(other string) bool { return other == id })
}

// crash repeatedly kills a member, in every second round the leader. It measures the time until all shards are served.
func (t *trial) crash(ctx context.Context) error {
	var leaders, others []time.Duration
	for round := range kills {
		queue, err := t.leader.Queue(ctx)
		if err != nil {
			return err
		}
		id, took := queue[0].Name, &leaders
		if round%2 == 1 {
			id, took = queue[len(queue)/2].Name, &others
		}
		began := time.Now()
		if err := t.kill(id); err != nil {
			return err
		}
		at, err := t.tally.served(without(id))
		if err != nil {
			return err
		}
		*took = append(*took, at.Sub(began)-timeout)
		if err := t.join(id); err != nil {
			return err
		}
		if _, err := t.tally.settled(eight); err != nil {
			return err
		}
	}
	fmt.Printf("\n| until all shards are served | n | least | median | worst |\n| --- | --- | --- | --- | --- |\n")
	tell("SIGKILL of the leader, beyond the session timeout", leaders)
	tell("SIGKILL of another member, beyond the session timeout", others)
	tell("both", append(leaders, others...))
	return nil
}

func tell(what string, took []time.Duration) {
	slices.Sort(took)
	fmt.Printf("| %s | %d | %v | %v | %v |\n", what, len(took), short(took[0]), short(took[len(took)/2]),
		short(took[len(took)-1]))
}

// depart makes a member leave and join again, and times and counts both.
func (t *trial) depart(context.Context) error {
	var leave, join passage
	for round := range rounds {
		id := eight[round%len(eight)]
		if err := leave.pass(t, without(id), func() error { return t.leave(id) }); err != nil {
			return err
		}
		if err := join.pass(t, eight, func() error { return t.join(id) }); err != nil {
			return err
		}
	}
	tell("a member leaves", leave.took)
	tell("it joins again", join.took)
	fmt.Println()
	leave.tell("a member leaves")
	join.tell("it joins again")
	return nil
}

// restart stops one member after another. Each returns after a while.
func (t *trial) restart(context.Context) error {
	t.tally.reset()
	for _, id := range eight {
		if err := t.stop(id); err != nil {
			return err
		}
		time.Sleep(down)
		if err := t.join(id); err != nil {
			return err
		}
		if _, err := t.tally.served(eight); err != nil {
			return err
		}
	}
	if _, err := t.tally.settled(eight); err != nil {
		return err
	}
	n := t.tally.counted()
	fmt.Printf(
		"* all members restart one after the other with a grace, each down for %v: %d shards moved, %d stopped, "+
			"%v without an owner at most\n",
		down, n.moved, n.stopped, short(n.longest))
	return nil
}

// passage is the cost of a change, each time it was made.
type passage struct {
	took []time.Duration // until all shards are served
	sent counter
	count
}

func (p *passage) pass(t *trial, becomes []string, do func() error) error {
	if _, err := t.asked(); err != nil {
		return err
	}
	t.tally.reset()
	began := time.Now()
	if err := do(); err != nil {
		return err
	}
	at, err := t.tally.settled(becomes)
	if err != nil {
		return err
	}
	p.took = append(p.took, at.Sub(began))
	sent, err := t.asked()
	if err != nil {
		return err
	}
	for op, n := range sent {
		p.sent.add(op, n)
	}
	n := t.tally.counted()
	p.moved += n.moved
	p.stopped += n.stopped
	p.longest = max(p.longest, n.longest)
	return nil
}

func (p *passage) tell(what string) {
	fmt.Printf(
		"* %s, %d times: %d shards moved, %d stopped, %v without an owner at most; requests of all members, "+
			"until %v after the last change: %s\n",
		what, len(p.took), p.moved, p.stopped, short(p.longest), quietTime, inWords(p.sent.take()))
}
