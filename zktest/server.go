package zktest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/transport"
)

// Server is a ZooKeeper server in this process, with its nodes, sessions and watches in memory. All methods are safe
// for concurrent use. After Close, connections are refused, but the state can still be read.
type Server struct {
	cfg  config
	done chan struct{} // closed by Close
	wg   sync.WaitGroup
	thaw transport.Gate // closed while the server is frozen

	faults  faults
	latency latency

	// mu guards the fields below, and is never held while waiting for anything except another mutex.
	mu                   sync.Mutex
	closed, down, frozen bool
	state                *ensemble.Ensemble
	fronts               []*Front // set by Start
	listeners            map[net.Listener]*Front
	conns                map[*conn]struct{} // those with live goroutines
	lastPort             int
	stalls               []stall
	refused              []Who
	labels               labels
	healed               chan struct{} // closed when a stall ends
	history              history
	violations           []error // the first maxViolations
	untold               []error // violations not reported yet
	scratch              proto.Encoder
}

// Run is like [Start], but for tests: it closes the server when the test ends. A violation (see [OnViolation]) fails
// the test, while misuse is only logged as a warning. At the end of the test Run also logs which faults had no effect:
// rules of [Server.Intercept] that matched no request, unless they [Forbid] it; labels that no client had; and session
// 0. This reveals, for example, a typo in a path.
func Run(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	cfg := defaults()
	cfg.onViolation = func(err error) {
		if errors.Is(err, ErrMisuse) {
			tb.Logf("zktest: warning: %v", err)
		} else {
			tb.Errorf("zktest: %v", err)
		}
	}
	s, err := start(cfg, opts)
	if err != nil {
		tb.Fatalf("zktest: %v", err)
	}
	tb.Cleanup(func() {
		s.Close()
		for _, fault := range s.idle() {
			tb.Logf("zktest: %s", fault)
		}
	})
	return s
}

// Start starts a server, for programs and for tests that close it themselves. It listens on a free loopback port,
// unless you pass [WithListener] or [InMemory].
//
// Errors: an option out of range, or the error from net.Listen. If Start fails, nothing is left running.
func Start(opts ...Option) (*Server, error) { return start(defaults(), opts) }

func start(cfg config, opts []Option) (*Server, error) {
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("zktest: option %d is nil", i)
		}
		o.apply(&cfg)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, done: make(chan struct{}), listeners: map[net.Listener]*Front{},
		conns: map[*conn]struct{}{}, healed: make(chan struct{}), history: history{limit: cfg.history},
	}
	s.SetLatency(cfg.latency)
	s.SetWriteLatency(cfg.writeLatency)
	cfg.Now, cfg.Recorded, cfg.Violated, cfg.Misused = time.Now, s.remember, s.report, s.misuse
	s.state = ensemble.New(cfg.Settings)
	for _, f := range s.state.Fronts {
		f.Addr = fmt.Sprintf(inMemoryAddr, f.ID)
		s.fronts = append(s.fronts, &Front{s: s, state: f})
	}
	if err := s.listenAll(); err != nil {
		s.Close()
		return nil, err
	}
	s.state.Start()
	s.wg.Go(s.expireLoop)
	s.wg.Go(s.reapLoop)
	return s, nil
}

// admit starts to serve a connection, unless the server refuses it.
func (s *Server) admit(nc net.Conn, label string, f *Front) bool {
	s.lock()
	defer s.unlock()
	s.labels.dialed(label)
	if s.refuses(label) || f.state.Stopped {
		return false
	}
	c := newConn(s, nc)
	c.Client = f.state.Join(label, nc.RemoteAddr(), c)
	s.conns[c] = struct{}{}
	s.stallConn(c)
	s.startMute(c)
	s.wg.Go(func() {
		var writer sync.WaitGroup
		writer.Go(c.Write)
		c.read()
		writer.Wait()
		s.lock()
		delete(s.conns, c)
		c.Forget()
		s.unlock()
	})
	return true
}

// Close stops the server. When it returns, connections and listeners are closed and all of the server's goroutines have
// returned. Calling Close again is a no-op, except that it waits, too.
func (s *Server) Close() {
	s.lock()
	if !s.closed {
		s.closed = true
		close(s.done)
		s.closeListeners(nil)
		for c := range s.conns {
			s.release(c, transport.Abrupt)
		}
	}
	s.unlock()
	s.wg.Wait()
}

func (s *Server) lock() { s.mu.Lock() }

// unlock also reports violations, now that the function that receives them may call the server.
func (s *Server) unlock() {
	fresh := s.untold
	s.untold = nil
	s.mu.Unlock()
	for _, err := range fresh {
		s.cfg.onViolation(err)
	}
}

// maxViolations bounds the list of violations: a client that repeats one must not exhaust the memory.
const maxViolations = 1000

// report records a violation. The caller holds mu.
func (s *Server) report(err error) {
	if len(s.violations) < maxViolations {
		s.violations = append(s.violations, err)
	}
	if s.cfg.onViolation != nil {
		s.untold = append(s.untold, err)
	}
}

// ErrMisuse marks violations caused by a client: a real server accepts the request and is damaged by it, or does
// something other than the client seems to intend.
var ErrMisuse = errors.New("misuse")

func (s *Server) misuse(format string, args ...any) {
	s.report(fmt.Errorf("%w: %s", ErrMisuse, fmt.Sprintf(format, args...)))
}

// after calls do, under the lock, when d has passed, unless stop is called first. Close waits until do has returned, so
// a connection calls stop when it ends.
func (s *Server) after(d time.Duration, do func()) (stop func()) {
	s.wg.Add(1)
	timer := time.AfterFunc(d, func() {
		defer s.wg.Done()
		s.lock()
		defer s.unlock()
		do()
	})
	return func() {
		if timer.Stop() {
			s.wg.Done()
		}
	}
}

// expireLoop expires sessions until the server is closed.
func (s *Server) expireLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.lock()
		wait := s.state.Tick()
		s.unlock()
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.state.Tracker.Woken:
		case <-s.done:
			return
		}
	}
}
