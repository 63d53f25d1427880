// Command worker is one client process of the chaos tests. It takes one turn after another. In a turn with a lock, it
// acquires the lock, works on what the lock protects, and releases it. For every other recipe, a file defines what a
// turn is. The worker writes one JSON line for each event.
//
// It reads orders from its input, one word per line. "work" is the default. "hold" makes the next turn last until the
// next order, which may be "hold" again, and repeats the turn if its hold is lost. "rest" stops new turns. The end of
// the input ends the program gracefully.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/integration/chaos/resource"
	"github.com/zkrecipes/zkrecipes/integration/kit/awake"
	"github.com/zkrecipes/zkrecipes/zkkerberos"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

type config struct {
	id, servers, recipe, path, socket, sets string
	keytab, principal, server, acl          string
	kazoo, eager                            bool
	session, section                        time.Duration
	limit, mates                            int
	writes                                  float64
	seed                                    uint64
}

func main() {
	var c config
	flag.StringVar(&c.id, "id", "worker", "name of this client")
	flag.StringVar(&c.servers, "servers", "", "ZooKeeper to use")
	flag.StringVar(&c.recipe, "recipe", "mutex",
		"election, mutex, try, rwlock, semaphore, node, claim, group, cache, value, counter, double, register, "+
			"guarded or shards")
	flag.StringVar(&c.path, "path", "/chaos", "path of the lock, or of the node that the recipe is about")
	flag.StringVar(&c.socket, "resource", "", "socket of the resource server")
	flag.StringVar(&c.sets, "sets", "", "what the names of the sets at the resource begin with; default the recipe")
	flag.BoolVar(&c.kazoo, "kazoo", false, "share the path with kazoo")
	flag.BoolVar(&c.eager, "eager", false, "mutex and election hand over eagerly")
	flag.DurationVar(&c.session, "session-timeout", 3*time.Second, "session timeout")
	flag.DurationVar(&c.section, "section", 40*time.Millisecond, "longest section, and longest pause between two")
	flag.IntVar(&c.limit, "limit", 2,
		"of the semaphore, of the rounds of the double barrier, and how many shards there are")
	flag.IntVar(&c.mates, "mates", 0,
		"callers that lock and release beside the turns, in the same session, and report nothing")
	flag.Float64Var(&c.writes, "writes", 0.4, "share of writes on the read-write lock")
	flag.Uint64Var(&c.seed, "seed", 1, "of what is drawn by lot")
	flag.StringVar(&c.keytab, "keytab", "",
		"file with the key of the Kerberos principal that the worker shows; empty for none")
	flag.StringVar(&c.principal, "principal", "", "Kerberos principal of the worker")
	flag.StringVar(&c.server, "server", "", "Kerberos principal of the servers")
	flag.StringVar(&c.acl, "acl", "",
		"SASL ids, separated by commas, that alone may use what the worker makes; default everyone")
	flag.Parse()
	c.sets = cmp.Or(c.sets, c.recipe)
	if err := run(c); err != nil {
		fmt.Fprintf(os.Stderr, "worker %s: %v\n", c.id, err)
		os.Exit(1)
	}
}

func run(c config) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	orders := listen(os.Stdin, stop)
	logger := slog.New(slog.DiscardHandler)
	opts := []conn.Option{conn.WithSessionTimeout(c.session), conn.WithIdentity(c.id), conn.WithLogger(logger)}
	if c.keytab != "" {
		who, err := zkkerberos.Keytab(c.keytab, c.principal, zkkerberos.WithServer(c.server), zkkerberos.WithLogger(logger))
		if err != nil {
			return err
		}
		defer func() { _ = who.Close() }() // it never fails
		opts = append(opts, conn.WithSASL(who))
	}
	if c.acl != "" {
		var list []zk.ACL
		for id := range strings.SplitSeq(c.acl, ",") {
			list = append(list, zk.ACL{Perms: zk.PermAll, Scheme: "sasl", ID: id})
		}
		opts = append(opts, conn.WithACL(list))
	}
	client, err := conn.Dial(ctx, c.servers, opts...)
	if err != nil {
		return leaving(ctx, err)
	}
	defer client.Close()
	res, err := resource.Dial(c.socket, c.id)
	if err != nil {
		return err
	}
	defer func() { _ = res.Close() }() // it is closed with the process anyway
	w := &worker{
		config: c, client: client, orders: orders, resource: res, journal: journal.NewWriter(os.Stdout, c.id),
		rng: rand.New(rand.NewPCG(c.seed, 0)),
	}
	defer w.beside.Wait()
	turn, err := w.recipe(ctx)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		orders.rested(ctx)
		if w.session, err = client.Session(ctx); err != nil {
			return leaving(ctx, err)
		}
		if err := turn(ctx); err != nil {
			return leaving(ctx, err)
		}
		pause(ctx, rand.N(c.section))
	}
	return nil
}

// A turn is one operation, whatever its result. An error ends the worker.
type turn func(context.Context) error

// recipe returns what a turn is. Whatever a recipe does in addition to the turns ends with ctx.
func (w *worker) recipe(ctx context.Context) (turn, error) {
	switch w.config.recipe {
	case "node", "claim":
		return w.presences(), nil
	case "group":
		return w.memberships(ctx)
	case "cache":
		return w.copies(ctx)
	case "value":
		return w.updates(ctx)
	case "counter":
		return w.additions()
	case "double":
		return w.meetings()
	case "register":
		return w.registers()
	case "guarded":
		return w.guarded()
	case "shards":
		return w.shards(ctx)
	default:
		return w.locks(ctx)
	}
}

// leaving drops an error that only reports that the worker is leaving.
func leaving(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

type worker struct {
	config
	client   *conn.Client
	session  *conn.Session
	orders   *orders
	resource *resource.Client
	journal  *journal.Writer
	rng      *rand.Rand
	texts    int            // written to registers so far
	beside   sync.WaitGroup // what must end before the client is closed
}

// locks returns the turn of a lock.
func (w *worker) locks(ctx context.Context) (turn, error) {
	recipe, err := newRecipe(w.client, w.config)
	if err != nil {
		return nil, err
	}
	for i := range w.mates {
		go w.mate(ctx, recipe(rand.New(rand.NewPCG(w.seed, uint64(i)+1))))
	}
	return func(ctx context.Context) error { return w.section(ctx, recipe(w.rng)) }, nil
}

// orphaned reports that the session in which an operation began has ended.
func (w *worker) orphaned(op *journal.Op) {
	if w.session.Err() != nil {
		op.Tell(journal.Line{Event: check.Event{Kind: journal.Orphaned}})
	}
}

// failed reports an error that leaves open whether the operation had an effect.
func (w *worker) failed(ctx context.Context, op *journal.Op, err error) {
	op.Tell(journal.Line{
		Event: check.Event{Kind: journal.Unknown}, Session: w.client.Status().Session,
		Reason: err.Error(),
	})
	pause(ctx, w.length())
}

// last makes a turn last, until the next order if the newest is "hold".
func (w *worker) last(ctx context.Context, stuck <-chan struct{}) { <-released(ctx, stuck, w.length()) }

// section is one acquisition, whatever its result.
func (w *worker) section(ctx context.Context, a ask) error {
	op := w.journal.Call(a.weight, a.read)
	defer w.orphaned(op)
	h, err := a.acquire(ctx)
	switch {
	case err == nil:
	case errors.Is(err, zkrecipes.ErrLocked):
		op.Tell(journal.Line{Event: check.Event{Kind: check.Failed}, Reason: "busy"})
		return nil
	default:
		w.failed(ctx, op, err)
		return nil
	}
	stuck := w.orders.holding()
	op.Tell(journal.Line{
		Event: check.Event{Kind: check.Granted, Token: h.Token()},
		Until: journal.At(h.ValidUntil()), Stuck: stuck != nil, Path: h.Path(),
	})
	if err := w.use(ctx, op, h, a, stuck); err != nil {
		return err
	}
	op.Tell(journal.Line{Event: check.Event{Kind: check.Released}})
	if err := h.Release(ctx); errors.Is(err, zkrecipes.ErrLost) {
		tellLoss(op, err)
	}
	return nil
}

// mate acquires and releases, so that holds of one session follow each other in the queue.
func (w *worker) mate(ctx context.Context, a ask) {
	for ctx.Err() == nil {
		w.orders.rested(ctx)
		if h, err := a.acquire(ctx); err == nil {
			_ = h.Release(ctx) // a loss is reported to those who record
		}
		pause(ctx, rand.N(w.config.section))
	}
}

func (w *worker) length() time.Duration {
	return time.Duration(w.rng.Int64N(int64(w.config.section)) + 1)
}

// use is the section: read the sets, work for a while, write them. It plays three programs, each on a set of its own.
// The resource of the first has a fence. The second has no fence, and checks its hold before it writes. The third has
// no fence, and does not check.
func (w *worker) use(ctx context.Context, op *journal.Op, h *zkrecipes.Hold, a ask, stuck <-chan struct{}) error {
	sets := map[string]int{}
	if a.exclusive {
		for _, set := range []string{resource.Fenced, "attentive", "deaf"} {
			version, err := w.resource.Read(w.sets+"/"+set, h.Token())
			if err == nil {
				sets[set] = version
			} else if !errors.Is(err, fence.ErrStale) {
				return err
			}
		}
	}
	over := released(ctx, stuck, w.length())
	if stuck != nil {
		go w.chat(h)
	}
	select {
	case <-over:
	case <-h.Done():
		tellLoss(op, h.Err())
		<-over
	}
	for set, version := range sets {
		if set == "attentive" && h.Err() != nil {
			continue
		}
		element := fmt.Sprintf("%s@%d", w.id, h.Token())
		if err := w.resource.Add(w.sets+"/"+set, h.Token(), version, element); err != nil && !errors.Is(err, fence.ErrStale) {
			return err
		}
	}
	return nil
}

// chat reads while the hold lasts. A server that answers reads must not be mistaken for one that can prolong a session.
func (w *worker) chat(h *zkrecipes.Hold) {
	for h.Err() == nil {
		_, _, _ = w.client.Exists(h.Context(), h.Path()) // the answer does not matter
		pause(h.Context(), 20*time.Millisecond)
	}
}

func tellLoss(op *journal.Op, err error) {
	now := time.Now()
	l := journal.Line{Event: check.Event{Kind: check.Lost, At: journal.At(now)}}
	var lost *zkrecipes.LostError
	if errors.As(err, &lost) {
		l.Reason, l.Until = lost.Reason.String(), journal.At(lost.At)
		l.Stalled = awake.Longest(lost.At, now) > 0
	}
	op.Tell(l)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
