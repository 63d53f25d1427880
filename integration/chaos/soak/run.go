// Package soak runs for hours: all recipes on a real ensemble under faults, concurrently with Curator and kazoo. Each
// section of a lock writes a register behind a fence. The package counts the sections, what went wrong, and what the
// process and the servers use.
package soak

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/chaos"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// Root is the parent of all nodes of a run.
const Root = "/soak"

// Config configures a run.
type Config struct {
	Seed     uint64
	Duration time.Duration    // from when all clients work
	Enough   func(Tally) bool // ends the run early, if not nil
	Kinds    []chaos.Kind
	Session  time.Duration // timeout requested by the clients
	Peace    time.Duration // between the end of a fault and the next one
	Every    time.Duration // between two entries of the journal
	Sessions int           // our clients; the first two are behind proxies
	Locks    int           // of each kind, with two workers each
	Pause    time.Duration // between operations of recipes that are not locks, and between sections shared with others
	Journal  string        // file
	Dir      string        // for the socket
	// Mates are processes of other libraries.
	Mates []Mate
	Log   func(format string, args ...any)
}

// A Mate is a process of another library that runs sections on one of our paths.
type Mate struct {
	// Lock is the name of the lock, and Kind is which of our locks shares it.
	Lock, Kind string
	// Loop runs some sections, which use the ledger at the socket.
	Loop func(ctx context.Context, path, socket string) error
}

type run struct {
	Config
	ensemble *zkserver.Ensemble
	clients  []*conn.Client
	proxies  []*proxy.Proxy
	ledger   *ledger
	workers  sync.WaitGroup
}

// Run runs until its duration is over, Enough returns true, or ctx ends, and returns the last entry of its journal. An
// error means that the run could not start, or that a server did not come back.
func Run(ctx context.Context, cfg Config, e *zkserver.Ensemble) (last Entry, err error) {
	r := &run{Config: cfg, ensemble: e, ledger: newLedger()}
	journal, err := OpenJournal(cfg.Journal)
	if err != nil {
		return last, err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.open(ctx); err != nil {
		return last, err
	}
	ctx, stop := context.WithTimeout(ctx, cfg.Duration)
	defer stop()
	if err := r.start(ctx); err != nil {
		return last, err
	}
	broken := make(chan error, 1)
	go func() {
		if err := r.faults(ctx); err != nil {
			broken <- err
			stop() // sections without faults would prove nothing
		}
		close(broken)
	}()
	for ctx.Err() == nil {
		wait(ctx, cfg.Every)
		now := r.ledger.sum()
		if last, err = journal.Write(now, sample(e.Servers, last.Sample)); err != nil {
			return last, err
		}
		cfg.Log("%v", last)
		if cfg.Enough != nil && cfg.Enough(now) {
			stop()
		}
	}
	r.workers.Wait()
	return last, <-broken
}

func (r *run) open(ctx context.Context) error {
	var behind []string
	for _, s := range r.ensemble.Servers {
		p, err := proxy.Open(s.Addr())
		if err != nil {
			return err
		}
		r.proxies = append(r.proxies, p)
		behind = append(behind, p.Addr())
	}
	for i := range r.Sessions {
		addr := r.ensemble.Addr()
		if i < 2 {
			addr = strings.Join(behind, ",")
		}
		c, err := conn.Dial(ctx, addr, conn.WithSessionTimeout(r.Session), conn.WithIdentity(fmt.Sprint("go-", i)),
			conn.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			return err
		}
		r.clients = append(r.clients, c)
	}
	return r.clients[2].CreateAll(ctx, Root, nil)
}

func (r *run) start(ctx context.Context) error {
	socket := filepath.Join(r.Dir, "ledger")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go r.ledger.serve(listener)
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	for _, m := range r.Mates {
		if err := r.mate(ctx, m, socket); err != nil {
			return err
		}
	}
	return errors.Join(r.locks(ctx), r.others(ctx))
}

// mate starts one of our workers along with a process of another library. If the other's loop ends, for example because
// of a lost connection, it is restarted.
func (r *run) mate(ctx context.Context, m Mate, socket string) error {
	path := Root + "/" + m.Lock + "/lock"
	for _, k := range kinds {
		if k.name != m.Kind {
			continue
		}
		take, err := k.make(r.clients[len(r.clients)-1], path)
		if err != nil {
			return err
		}
		r.workers.Go(func() { r.work(ctx, Root+"/"+m.Lock+"/fenced", take, r.Pause) })
	}
	r.workers.Go(func() {
		for ctx.Err() == nil {
			if m.Loop(ctx, path, socket) != nil {
				r.failed(ctx)
			}
			wait(ctx, r.Pause)
		}
	})
	return nil
}

func (r *run) close() error {
	var err error
	for _, c := range r.clients {
		err = errors.Join(err, c.Close())
	}
	for _, p := range r.proxies {
		p.Close()
	}
	return err
}
