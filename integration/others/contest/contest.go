// Package contest makes processes of this library and of another one contend on one path, and kills some of them while
// they do.
package contest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// patience is how long a contest waits for the next section. A killed process keeps the others waiting for a session
// timeout.
const patience = time.Minute

// A Contest has two processes on each side. A process that is killed is replaced at once.
type Contest struct {
	// Ours returns the command of cmd/worker.
	Ours func(id string) *exec.Cmd
	// Theirs starts a process of the other library, which acquires and releases until it is killed.
	Theirs func(id string, event func(check.Event)) (kill func())
	// Sections is how many sections must end, and Kills how many processes are killed meanwhile, on alternating sides.
	Sections, Kills int

	mu     sync.Mutex
	events []check.Event
	last   map[string]check.Event // by client
	ended  int                    // sections
	moved  chan struct{}

	awaited string        // the client whose next grant closes granted
	granted chan struct{} // see holding
}

// Result is what a contest has observed.
type Result struct {
	Holds                             []check.Hold
	Turns                             int // how often a section of one side followed one of the other
	Kills, WhileHolding, WhileWaiting int
	Took                              time.Duration
}

func (r Result) String() string {
	return fmt.Sprintf("%d sections in %v, %d turns between the two, %d kills: %d of holders, %d of waiters", len(r.Holds),
		r.Took.Round(time.Millisecond), r.Turns, r.Kills, r.WhileHolding, r.WhileWaiting)
}

// a place is occupied by one process at a time.
type place struct {
	side        string
	number      int
	incarnation int
	id          string
	kill, leave func()
}

// Run runs the contest to its end.
func (c *Contest) Run(tb testing.TB) Result {
	tb.Helper()
	c.last, c.moved = map[string]check.Event{}, make(chan struct{}, 1)
	began := time.Now()
	places := []*place{{side: "go"}, {side: "peer"}, {side: "go", number: 1}, {side: "peer", number: 1}}
	for _, p := range places {
		c.start(tb, p)
	}
	var r Result
	for r.Kills < c.Kills {
		c.reach(tb, c.Sections*(r.Kills+1)/(c.Kills+1))
		p := places[r.Kills%len(places)]
		if r.Kills/len(places)%2 == 0 {
			c.holding(tb, p)
		} else {
			time.Sleep(rand.N(20 * time.Millisecond)) // at any time, not just after a release
		}
		if doing := c.kill(p); doing == check.Granted {
			r.WhileHolding++
		} else if doing == check.Called {
			r.WhileWaiting++
		}
		r.Kills++
		c.start(tb, p)
	}
	c.reach(tb, c.Sections)
	for _, p := range places {
		p.leave()
		c.end(p.id, journal.Now())
	}
	holds, err := check.Holds(c.events)
	if err != nil {
		tb.Fatal(err)
	}
	slices.SortFunc(holds, func(a, b check.Hold) int { return cmp.Compare(a.From, b.From) })
	for i := range len(holds) - 1 {
		if holds[i].Client[0] != holds[i+1].Client[0] {
			r.Turns++
		}
	}
	r.Holds, r.Took = holds, time.Since(began)
	return r
}

// start runs the next process in a place.
func (c *Contest) start(tb testing.TB, p *place) {
	tb.Helper()
	p.incarnation++
	p.id = fmt.Sprintf("%s-%d.%d", p.side, p.number, p.incarnation)
	if p.side == "peer" {
		p.kill = c.Theirs(p.id, c.event)
		p.leave = p.kill
		return
	}
	process := c.Ours(p.id)
	in, err := process.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := process.Start(); err != nil {
		tb.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.read(out)
		_ = process.Wait() // fails if it was killed
	}()
	p.kill = func() {
		_ = process.Process.Kill() // it may already have ended
		<-over
	}
	p.leave = func() {
		_ = in.Close()
		<-over
	}
	tb.Cleanup(p.kill)
}

func (c *Contest) read(in io.Reader) {
	granted := int64(0)
	for lines := json.NewDecoder(in); ; {
		var l journal.Line
		if lines.Decode(&l) != nil {
			return // the end; a line torn by a kill does not count
		}
		if l.Kind == journal.Unknown {
			l.Kind = check.Failed
		}
		if l.Kind == check.Granted {
			granted = l.At
		}
		if l.Kind == check.Lost && l.Stalled { // the process could not report it in time
			l.At = max(l.Until, granted)
		}
		if l.Kind != journal.Orphaned {
			c.event(l.Event)
		}
	}
}

func (c *Contest) event(e check.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
	c.last[e.Client] = e
	if e.Kind == check.Granted && e.Client == c.awaited {
		c.awaited = ""
		close(c.granted)
	}
	if e.Kind == check.Released {
		c.ended++
		select {
		case c.moved <- struct{}{}:
		default:
		}
	}
}

// reach waits until the given number of sections have ended.
func (c *Contest) reach(tb testing.TB, sections int) {
	tb.Helper()
	for {
		c.mu.Lock()
		now := c.ended
		c.mu.Unlock()
		if now >= sections {
			return
		}
		select {
		case <-c.moved:
		case <-time.After(patience):
			c.mu.Lock()
			defer c.mu.Unlock()
			tb.Fatalf("no section within %v after %d; last: %v", patience, now, c.last)
		}
	}
}

// holding waits until a process holds. It does not poll, because a grant may be too short for a busy machine to see.
func (c *Contest) holding(tb testing.TB, p *place) {
	tb.Helper()
	granted := make(chan struct{})
	c.mu.Lock()
	if c.last[p.id].Kind == check.Granted {
		close(granted)
	} else {
		c.awaited, c.granted = p.id, granted
	}
	c.mu.Unlock()
	select {
	case <-granted:
	case <-time.After(patience):
		tb.Fatalf("%s has not been granted within %v", p.id, patience)
	}
}

// kill kills the process, and returns the last event known of it. What it did after the kill began is not held against
// it.
func (c *Contest) kill(p *place) check.Kind {
	at := journal.Now()
	p.kill()
	return c.end(p.id, at)
}

// end completes the last operation of a process that has ended.
func (c *Contest) end(client string, at int64) check.Kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.last[client]
	if !ok {
		return ""
	}
	end := check.Event{Client: client, Op: last.Op, At: max(at, last.At)}
	switch last.Kind {
	case check.Called:
		end.Kind = check.Failed
	case check.Granted:
		end.Kind = check.Lost
	default:
		return last.Kind
	}
	c.events = append(c.events, end)
	return last.Kind
}

// Judge checks the result of a contest. For a read-write lock the limit is 0. Updates are those of an exclusive lock,
// without a fence; nil for none.
func (r Result) Judge(tb testing.TB, limit int, updates []check.Update) {
	tb.Helper()
	holds := r.Holds
	if limit == 0 {
		holds, limit = check.ReadWrite(holds)
	}
	if err := check.Exclusion(holds, limit); err != nil {
		tb.Error(err)
	}
	if err := check.Order(holds, limit); err != nil {
		tb.Error(err)
	}
	lost := slices.DeleteFunc(check.LostUpdates(updates), r.late)
	if len(lost) > 0 {
		tb.Errorf("%d of %d updates lost: %v", len(lost), len(updates), lost[0])
	}
	if r.Turns == 0 {
		tb.Error("the two sides never took turns")
	}
	tb.Logf("%v, %d updates", r, len(updates))
}

// late reports whether the hold of one of the two writers was lost. Without a fence, a process that the machine stops
// between its read and its write for longer than its session timeout still writes. Peers of the other library have no
// tokens, and report no loss.
func (r Result) late(l check.LostUpdate) bool {
	return slices.ContainsFunc(r.Holds, func(h check.Hold) bool {
		return h.Lost && h.Token != 0 && (h.Token == l.Lost.Token || h.Token == l.By.Token)
	})
}

// Drained waits until no contender is left below the paths. Those of killed processes disappear with their sessions.
func Drained(tb testing.TB, c *conn.Client, paths ...string) {
	tb.Helper()
	for _, path := range paths {
		var left []string
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			var err error
			left, err = c.Children(tb.Context(), path)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				tb.Fatal(err)
			}
			if len(left) == 0 {
				break
			}
			if time.Now().After(deadline) {
				tb.Fatalf("left behind below %s: %v", path, left)
			}
		}
	}
}

// Length returns the number of sections and kills of each contest. The environment variable MIXED_SECTIONS sets the
// total number of sections of all contests; without it there are few.
func Length(contests int) (sections, kills int) {
	if total, err := strconv.Atoi(os.Getenv("MIXED_SECTIONS")); err == nil && total > 0 {
		sections = total/contests + 1
		return sections, max(4, sections/100)
	}
	return 120, 2
}

// Long reports whether MIXED_SECTIONS is set.
func Long() bool { return os.Getenv("MIXED_SECTIONS") != "" }
