package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/integration/chaos/resource"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// Root is the parent of all locks of a run.
const Root = "/chaos"

// Registers is the parent of the registers of a run. No operator deletes there.
const Registers = "/registers"

// patience bounds steps that must finish but are not tested.
const patience = 2 * time.Minute

// Group is a number of clients with one recipe on one path.
type Group struct {
	Recipe  string
	Clients int
	Limit   int
}

// Config configures a run.
type Config struct {
	Seed     uint64
	Duration time.Duration
	Session  time.Duration // timeout requested by the clients
	Limit    time.Duration // how long after a fault all clients may take until they are served, have current views, and so on
	Section  time.Duration // the longest section of a lock
	Mates    int           // callers in each client of a lock, in addition to the one that reports
	Eager    bool          // mutex and election use WithHandOver(HandOverEager)
	Peace    time.Duration // how long all clients work before the next fault
	Tick     time.Duration // of the servers, for the report
	Kinds    []Kind
	Groups   []Group
	Worker   string // path of the program
	Dir      string // for the socket
	Pictures string // directory for pictures of histories that are not linearizable
	Log      func(format string, args ...any)
	Kerberos *Kerberos // nil if the servers do not authenticate clients
}

// run is a run in progress.
type run struct {
	Config
	ensemble *zkserver.Ensemble
	operator *conn.Client
	resource *resource.Server
	clients  []*client
	history  *history
	rounds   []round
	stills   int // how often the views were compared with the servers
	trouble  []error
}

// round is a fault that is over.
type round struct {
	Step
	Number   int
	Injected int64
	Healed   int64
	Served   int64 // when every client had been served after it
	victims  []string
}

// Run breaks the ensemble for a while, and returns its findings. An error means that the run could not start. Later
// failures are in the report.
func Run(cfg Config, e *zkserver.Ensemble) (*Report, error) {
	r := &run{Config: cfg, ensemble: e, history: newHistory()}
	defer r.close()
	if err := r.open(); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := r.served("before the first fault", journal.Now(), patience); err != nil {
		return nil, err
	}
	number := 0
	for step := range Schedule(cfg.Seed, cfg.Kinds, cfg.Session) {
		if time.Since(began) > cfg.Duration {
			break
		}
		number++
		if err := r.round(number, step); err != nil {
			r.trouble = append(r.trouble, fmt.Errorf("round %d, %s: %w", number, step.Kind, err))
			break // the events so far are judged nevertheless
		}
	}
	took := time.Since(began)
	r.leave()
	p, err := r.recall()
	if err != nil {
		r.trouble = append(r.trouble, err)
	}
	return r.judge(took, p), nil
}

func (r *run) open() (err error) {
	if r.resource, err = resource.Serve(filepath.Join(r.Dir, "resource")); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if r.operator, err = conn.Dial(ctx, r.ensemble.Addr(),
		r.Kerberos.operator(conn.WithSessionTimeout(10*time.Second))...); err != nil {
		return err
	}
	if err := r.makeRegisters(ctx); err != nil {
		return err
	}
	for _, g := range r.Groups {
		for place := range g.Clients {
			c := &client{group: g, place: place, history: r.history, command: r.command}
			r.clients = append(r.clients, c)
			if err := c.openProxies(r.ensemble); err != nil {
				return err
			}
			if err := c.start(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) command(id string, c *client) *exec.Cmd {
	section, mates := r.Section, r.Mates
	if f := followers[c.group.Recipe]; f.check != nil {
		section, mates = cmp.Or(f.section, 200*time.Millisecond), 0 // most write a lot
	}
	args := []string{
		"-id", id, "-servers", c.connect(), "-recipe", c.group.Recipe, "-section", section.String(),
		"-mates", fmt.Sprint(mates), fmt.Sprintf("-eager=%t", r.Eager),
		"-path", c.path(), "-resource", filepath.Join(r.Dir, "resource"), "-limit", fmt.Sprint(c.group.Limit),
		"-session-timeout", r.Session.String(), "-seed", fmt.Sprint(r.Seed + uint64(c.place)),
	}
	return exec.Command(r.Worker, append(args, r.Kerberos.worker(c.place)...)...)
}

func (r *run) close() {
	for _, c := range r.clients {
		c.close()
	}
	if r.operator != nil {
		_ = r.operator.Close() // it never fails
	}
	if r.resource != nil {
		r.resource.Close()
	}
}

// round is one fault: from the moment its victims hold until every client has been served after it.
func (r *run) round(number int, step Step) error {
	victims := r.victims(step)
	rd := round{Step: step, Number: number}
	for _, v := range victims {
		rd.victims = append(rd.victims, v.id)
	}
	f, err := r.fault(step, victims)
	if err != nil {
		return err
	}
	if err := r.hold(victims, f.prepare); err != nil {
		return err
	}
	rd.Injected = journal.Now()
	if err := do(f.inject); err != nil {
		return err
	}
	if err := r.last(step.Lasts, f.during); err != nil {
		return err
	}
	if err := do(f.heal); err != nil {
		return err
	}
	if err := r.ensemble.WaitReady(); err != nil {
		return err
	}
	rd.Healed = journal.Now()
	if err := each(victims, func(c *client) error { return c.order("work") }); err != nil {
		return err
	}
	if err := r.served(fmt.Sprintf("after round %d (%s)", number, step.Kind), rd.Healed, r.Limit); err != nil {
		r.trouble = append(r.trouble, err)
		if err := r.served("at last", rd.Healed, patience); err != nil {
			return err
		}
	}
	rd.Served = journal.Now()
	r.rounds = append(r.rounds, rd)
	if err := r.still(); err != nil {
		r.trouble = append(r.trouble, fmt.Errorf("after round %d (%s): %w", number, step.Kind, err))
	}
	r.Log("%s round %d: %-20s on %v: every client served %v after the end of the fault",
		time.Now().Format("15:04:05"), number,
		step.Kind, rd.victims, time.Duration(rd.Served-rd.Healed).Round(time.Millisecond))
	return r.last(r.Peace, nil)
}

func do(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

// last makes a fault last for d.
func (r *run) last(d time.Duration, during func() error) error {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(min(20*time.Millisecond, time.Until(end))) {
		if err := do(during); err != nil {
			return err
		}
	}
	return nil
}

// victims returns one client of each group, if the fault hits clients.
func (r *run) victims(s Step) []*client {
	if !needsVictims[s.Kind] {
		return nil
	}
	var victims []*client
	first := 0
	for _, g := range r.Groups {
		victims = append(victims, r.clients[first+s.Victim%g.Clients])
		first += g.Clients
	}
	return victims
}

// hold makes the victims hold their locks, and waits until all of them do. A victim that loses its hold meanwhile, as
// may happen on a busy machine, must hold again.
func (r *run) hold(victims []*client, prepare func() error) error {
	if len(victims) == 0 {
		return nil
	}
	if err := do(prepare); err != nil {
		return err
	}
	if err := each(victims, func(c *client) error { return c.order("hold") }); err != nil {
		return err
	}
	told := map[*client]int64{} // by victim, the operation that was lost before the others held
	err := poll(patience, "victims hold", func() bool {
		all := true
		for _, v := range victims {
			op, ok := r.history.last(v.id)
			held := ok && op.answer.Stuck && op.released == nil
			if held && op.lost != nil && told[v] != op.number {
				told[v] = op.number
				_ = v.order("hold") // an error shows later: the victim does not hold
			}
			all = all && held && op.lost == nil
		}
		return all
	})
	if err != nil {
		return err
	}
	return r.last(r.Session/2, nil) // long enough that the deadlines depend only on heartbeats
}

// served waits until every client has been granted something since the stamp.
func (r *run) served(when string, since int64, limit time.Duration) error {
	var waiting []string
	err := poll(limit, when, func() bool {
		waiting = waiting[:0]
		for _, c := range r.clients {
			if !r.history.grantedSince(c.id, since) {
				waiting = append(waiting, c.id)
			}
		}
		waiting = append(waiting, r.history.idle(r.Groups, since)...)
		return len(waiting) == 0
	})
	if err != nil {
		return fmt.Errorf("liveness: %w: not served: %v", err, waiting)
	}
	return nil
}

// leave ends all clients, and checks that they leave nothing behind.
func (r *run) leave() {
	for _, c := range r.clients {
		_ = c.orders.Close()
	}
	for _, c := range r.clients {
		if err := c.leave(patience); err != nil {
			r.trouble = append(r.trouble, err)
		}
	}
	var left error
	err := poll(r.Limit, "nothing left", func() bool {
		var paths []string
		err := r.clear()
		if err == nil {
			paths, err = r.tree(Root)
		}
		if err == nil {
			err = check.Leftovers(Root, paths, r.parents()...)
		}
		left = err
		return err == nil
	})
	if err != nil {
		r.trouble = append(r.trouble, errors.Join(err, left))
	}
}

// parents returns the names of the parents. They are containers, which the server removes in its own time.
func (r *run) parents() []string {
	names := []string{"locks", "leases"}
	for _, g := range r.Groups {
		names = append(names, g.Recipe)
	}
	return names
}

// Build compiles the worker into dir and returns its path.
func Build(dir string) (string, error) {
	program := filepath.Join(dir, "worker")
	build := exec.Command("go", "build", "-o", program, "github.com/zkrecipes/zkrecipes/integration/chaos/worker")
	build.Stderr = os.Stderr
	return program, build.Run()
}
