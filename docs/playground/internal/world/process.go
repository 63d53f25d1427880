package world

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Verb is something that can happen to a process.
type Verb string

// verbs maps each verb to its effect.
var verbs = map[Verb]func(*process) error{
	"take":    func(p *process) error { return p.take(false) },
	"read":    func(p *process) error { return p.take(true) },
	"release": (*process).release,
	"cut":     func(p *process) error { return p.cutOff(true) },
	"heal":    func(p *process) error { return p.cutOff(false) },
	"lose":    (*process).loseReply,
	"freeze":  (*process).freeze,
	"wake":    (*process).wake,
	"expire":  (*process).expire,
	"delete":  (*process).deleteNode,
	"start":   (*process).start,
	"stop":    func(p *process) error { return p.end(false) },
	"kill":    func(p *process) error { return p.end(true) },
}

// process is one lane: a client, and a worker that writes to the resource while it holds.
type process struct {
	world *World
	name  string
	lane  *lane

	mu     sync.Mutex // not held during calls to the client or a hold, which may call the tracer
	starts int
	// label is new at each start, because the previous client may still be closing.
	label   string
	client  *conn.Client // nil while the process is stopped
	acquire func(ctx context.Context, shared bool) (*zkrecipes.Hold, error)
	giveUp  context.CancelFunc // while it waits
	hold    *zkrecipes.Hold    // the last one, which may have ended
	cut     bool
	frozen  chan struct{} // closed when the process is frozen
	woken   chan struct{} // closed when it resumes; nil while it runs
	losing  *zktest.Rule
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		return errors.New("is already running")
	}
	p.starts++
	p.label = fmt.Sprintf("%s-%d", p.name, p.starts)
	client, err := p.world.dial(p)
	if err != nil {
		return err
	}
	if p.acquire, err = acquireOn(client, p.world.setting); err != nil {
		return errors.Join(err, client.Close())
	}
	p.client, p.frozen = client, make(chan struct{})
	p.lane.starts()
	return nil
}

// acquireOn creates the recipe, and returns a function that acquires it.
func acquireOn(c *conn.Client, s Setting) (func(context.Context, bool) (*zkrecipes.Hold, error), error) {
	switch s.Recipe {
	case RWLock:
		l, err := rwlock.New(c, path)
		return func(ctx context.Context, shared bool) (*zkrecipes.Hold, error) {
			if shared {
				return l.RLock(ctx)
			}
			return l.Lock(ctx)
		}, err
	case Semaphore:
		l, err := semaphore.New(c, path, s.Limit)
		return func(ctx context.Context, _ bool) (*zkrecipes.Hold, error) { return l.Acquire(ctx, 1) }, err
	case Election:
		e, err := election.New(c, path)
		return func(ctx context.Context, _ bool) (*zkrecipes.Hold, error) {
			term, err := e.Campaign(ctx)
			if err != nil {
				return nil, err
			}
			return term.Hold, nil
		}, err
	default:
		m, err := mutex.New(c, path)
		return func(ctx context.Context, _ bool) (*zkrecipes.Hold, error) { return m.Lock(ctx) }, err
	}
}

var (
	errStopped = errors.New("is stopped: start it first")
	errFrozen  = errors.New("is frozen: wake it first")
)

// ready returns an error that explains why the process cannot act now, or nil. The caller holds the lock.
func (p *process) ready() error {
	switch {
	case p.client == nil:
		return errStopped
	case p.woken != nil:
		return errFrozen
	}
	return nil
}

func (p *process) take(shared bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ready(); err != nil {
		return err
	}
	if shared && p.world.setting.Recipe != RWLock {
		return errors.New("cannot read: only a read-write lock has readers")
	}
	if p.giveUp != nil || p.hold != nil {
		return errors.New("is already waiting or holding")
	}
	ctx, giveUp := context.WithCancel(p.world.ctx)
	p.giveUp = giveUp
	acquire, client := p.acquire, p.client
	p.world.running.Go(func() {
		defer giveUp()
		hold, err := acquire(ctx, shared)
		p.mu.Lock()
		if p.client == client { // otherwise it was stopped, and perhaps started again
			p.giveUp, p.hold = nil, hold
		}
		p.mu.Unlock()
		if err == nil {
			p.work(hold, !shared && p.world.setting.Recipe != Semaphore)
		}
		p.mu.Lock()
		if p.hold == hold {
			p.hold = nil
		}
		p.mu.Unlock()
	})
	return nil
}

// work is what the process does while it holds: it checks the hold, and then writes. Freezing a process freezes it
// between the two, and nothing that runs in the process can prevent that.
func (p *process) work(h *zkrecipes.Hold, writes bool) {
	p.mu.Lock()
	label := p.label
	p.mu.Unlock()
	for h.Err() == nil {
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		select {
		case <-frozen:
			if !p.sleep(label) {
				return
			}
		default:
		}
		if writes {
			p.lane.wrote(p.world.gate.Admit(p.world.ctx, "resource", h.Token()))
		}
		select {
		case <-frozen:
		case <-h.Done():
		case <-time.After(writeEvery):
		}
	}
}

// sleep blocks until the process resumes, and returns true. It returns false if the process is stopped first.
func (p *process) sleep(label string) bool {
	p.mu.Lock()
	woken := p.woken
	p.mu.Unlock()
	if woken != nil {
		select {
		case <-woken:
		case <-p.world.ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client != nil && p.label == label
}

func (p *process) release() error {
	p.mu.Lock()
	err, hold, giveUp := p.ready(), p.hold, p.giveUp
	p.mu.Unlock()
	switch {
	case err != nil:
		return err
	case giveUp != nil:
		giveUp()
	case hold != nil:
		p.world.running.Go(func() { _ = hold.Release(p.world.ctx) }) // if it fails, it continues in the background
	default:
		return errors.New("holds nothing to release")
	}
	return nil
}

// cutOff cuts the process off from the servers, or reconnects it.
func (p *process) cutOff(cut bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.client == nil:
		return errStopped
	case cut == p.cut && cut:
		return errors.New("is already cut off")
	case cut == p.cut:
		return errors.New("is not cut off")
	}
	p.cut = cut
	p.lane.fault("cut", cut)
	p.stall()
	return nil
}

// stall stalls or resumes the connection, as the process's state requires. The caller holds the lock.
func (p *process) stall() {
	if p.cut || p.woken != nil {
		p.world.server.Stall(zktest.Label(p.label), zktest.Both)
	} else {
		p.world.server.Heal(zktest.Label(p.label))
	}
}

// freeze suspends the process's work, and everything it sends and receives.
func (p *process) freeze() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ready(); err != nil {
		return err
	}
	p.woken = make(chan struct{})
	close(p.frozen)
	p.lane.fault("frozen", true)
	p.stall()
	return nil
}

func (p *process) wake() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.woken == nil {
		return errors.New("is not frozen")
	}
	p.lane.fault("frozen", false)
	p.thaw()
	p.stall()
	return nil
}

// thaw resumes the worker. The caller holds the lock.
func (p *process) thaw() {
	if p.woken != nil {
		close(p.woken)
		p.woken, p.frozen = nil, make(chan struct{})
	}
}

// loseReply loses the reply to the next write below the path: the server applies the write, and the connection ends.
func (p *process) loseReply() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == nil {
		return errStopped
	}
	if p.isLosing() {
		return errors.New("is already set to lose its next reply")
	}
	p.losing = p.world.server.Intercept(zktest.Match{From: zktest.Label(p.label), Where: func(r zktest.Request) bool {
		switch r.Op {
		case zktest.OpCreate, zktest.OpCreate2, zktest.OpDelete:
			return strings.HasPrefix(r.Path, path+"/")
		case zktest.OpMulti:
			return true
		default:
			return false
		}
	}}, zktest.DropReply())
	p.lane.say("the reply to its next write will be lost")
	losing := p.losing
	p.world.running.Go(func() {
		select {
		case <-losing.Done():
			if losing.Hits() > 0 {
				p.lane.unanswered()
			}
		case <-p.world.ctx.Done():
		}
	})
	return nil
}

// isLosing reports whether a reply is still to be lost. The caller holds the lock.
func (p *process) isLosing() bool {
	if p.losing == nil {
		return false
	}
	select {
	case <-p.losing.Done():
		return false
	default:
		return true
	}
}

func (p *process) expire() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == nil || !p.world.server.Expire(p.world.server.SessionOf(p.label)) {
		return errors.New("has no session")
	}
	p.lane.say("its session is expired by hand")
	return nil
}

func (p *process) deleteNode() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	nodes := p.world.server.Ephemerals(p.world.server.SessionOf(p.label))
	if len(nodes) == 0 {
		return errors.New("has no node")
	}
	p.lane.say("its node is deleted by hand")
	return p.world.server.Delete(nodes[0])
}

// end stops the process. A killed process sends nothing to the server, so its session lives on there.
func (p *process) end(kill bool) error {
	p.mu.Lock()
	client, giveUp, label := p.client, p.giveUp, zktest.Label(p.label)
	if client == nil {
		p.mu.Unlock()
		return errStopped
	}
	if kill {
		p.world.server.Refuse(label)
		p.world.server.Cut(label)
	}
	if p.isLosing() {
		p.losing.Remove()
	}
	p.thaw()
	p.client, p.hold, p.giveUp, p.losing, p.cut = nil, nil, nil, nil, false
	p.mu.Unlock()
	p.lane.ends(kill)
	if giveUp != nil {
		giveUp()
	}
	p.world.running.Go(func() {
		_ = client.Close() // it never fails
		// The label is not used again. Whatever was in flight is lost, as it is when a real process dies.
		p.world.server.Cut(label)
		p.world.server.Heal(label)
		p.world.server.Accept(label)
	})
	return nil
}

// close ends the process with its world.
func (p *process) close() {
	p.mu.Lock()
	client := p.client
	p.client = nil
	p.mu.Unlock()
	if client != nil {
		_ = client.Close() // it never fails
	}
}
