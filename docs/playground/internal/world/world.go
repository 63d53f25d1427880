// Package world is the model behind the playground. Its processes use the real recipes against a zktest server, break
// on command, and leave a history of what happened. The package draws nothing and needs no browser, so its tests are
// ordinary tests.
//
// Time comes from package time: in a page, that is a clock which the page advances, and in a test, the bubble's clock.
package world

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The times are chosen for the eye: a session lasts long enough to watch it end, and a request long enough to be seen.
const (
	Timeout    = 6 * time.Second
	tick       = time.Second
	latency    = 120 * time.Millisecond
	writeEvery = 900 * time.Millisecond
)

// path is the node that all processes contend for.
const path = "/lock"

// World is a server and the processes that use it. It is safe for concurrent use.
type World struct {
	setting   Setting
	server    *zktest.Server
	gate      *fence.Gate // guards the one resource that exclusive holders write to
	history   *history
	processes []*process
	ctx       context.Context
	stop      context.CancelFunc
	running   sync.WaitGroup
}

// New starts a world with all its processes running. Its steps happen by themselves until ctx is done or the world is
// closed.
func New(ctx context.Context, s Setting) (*World, error) {
	server, err := zktest.Start(zktest.InMemory(), zktest.WithTickTime(tick), zktest.WithLatency(latency),
		zktest.WithHistory(1<<10))
	if err != nil {
		return nil, err
	}
	w := &World{setting: s, server: server, gate: fence.New(fence.NewMemory()), history: &history{begin: time.Now()}}
	w.ctx, w.stop = context.WithCancel(ctx)
	if err := w.furnish(); err != nil {
		w.Close()
		return nil, err
	}
	for _, name := range Names[:s.Processes] {
		p := &process{world: w, name: name, lane: w.history.lane(name, s.Recipe == Mutex || s.Recipe == Election)}
		w.processes = append(w.processes, p)
		if err := p.start(); err != nil {
			w.Close()
			return nil, err
		}
	}
	w.running.Go(w.play)
	return w, nil
}

// furnish creates the nodes above the contenders, as if the recipe had been used before. Otherwise the first contender
// would have to create them, and would be late.
func (w *World) furnish() error {
	for _, node := range []string{path, path + "/leases", path + "/locks"} {
		if _, err := w.server.Create(node, nil, zktest.Persistent); err != nil {
			return err
		}
		if w.setting.Recipe != Semaphore {
			break
		}
	}
	return nil
}

// play performs the steps of the setting.
func (w *World) play() {
	begin := time.Now()
	for _, step := range w.setting.Steps {
		select {
		case <-time.After(step.At - time.Since(begin)):
		case <-w.ctx.Done():
			return
		}
		if err := w.Do(step.Do, step.Who); err != nil {
			w.history.say(step.Who, err.Error())
		}
	}
}

// Do performs an action on a process.
//
// It returns an error, and has no effect, if the verb or process is unknown or the action makes no sense now.
func (w *World) Do(verb Verb, who string) error {
	do, known := verbs[verb]
	if !known {
		return fmt.Errorf("no such action: %s", verb)
	}
	for _, p := range w.processes {
		if p.name == who {
			return do(p)
		}
	}
	return fmt.Errorf("no such process: %s", who)
}

// Close stops all processes, then the server.
func (w *World) Close() {
	w.stop()
	for _, p := range w.processes {
		p.close()
	}
	w.running.Wait()
	w.server.Close()
}

// dial creates the client of a process.
func (w *World) dial(p *process) (*conn.Client, error) {
	return conn.New(w.server.Addr(),
		conn.WithSessionTimeout(Timeout), conn.WithIdentity(p.name), conn.WithTracer(p.lane.tracer()),
		conn.WithDialer(p.lane.tapped(w.server.DialAs(p.label))), conn.WithLogger(slog.New(slog.DiscardHandler)))
}
