package zktest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// Server is a ZooKeeper server in this process, with its nodes, sessions and watches in memory. All methods are safe
// for concurrent use. After Close connections are refused, and the state can still be read.
type Server struct {
	cfg  config
	done chan struct{} // closed by Close
	wg   sync.WaitGroup
	thaw gate // closed while the server is frozen

	faults  faults
	latency latency

	// mu guards what follows, and is never held while waiting for anything but another mutex.
	mu                   sync.Mutex
	closed, down, frozen bool
	fronts               []*Front // set by Start
	leader               *Front   // nil without a majority
	listeners            map[net.Listener]*Front
	conns                map[*conn]struct{} // those with live goroutines
	lastConn             uint64
	lastPort             int
	tree                 *tree.Tree
	zxid                 int64
	sessions             map[int64]*session
	lastSession          int64
	tracker              *tracker
	stalls               []stall
	refused              []Who
	healed               chan struct{} // closed when a stall ends
	history              history
	ledger               ledger
	violations           []error // the first maxViolations
	untold               []error // violations that are to be reported
	scratch              proto.Encoder
	traceMask            int64
	traffic
}

// Run is [Start] for tests. It closes the server when the test ends. A violation (see [OnViolation]) fails the test, and
// misuse is logged as a warning.
func Run(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	own := OnViolation(func(err error) {
		if errors.Is(err, ErrMisuse) {
			tb.Logf("zktest: warning: %v", err)
		} else {
			tb.Errorf("zktest: %v", err)
		}
	})
	s, err := Start(append([]Option{own}, opts...)...)
	if err != nil {
		tb.Fatalf("zktest: %v", err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Start starts a server for programs, and for tests that close it themselves. It listens on a free port of the
// loopback, unless [WithListener] names another address or [InMemory] is given.
// Errors: an option out of range, or the error of net.Listen. After an error nothing is left running.
func Start(opts ...Option) (*Server, error) {
	cfg := defaults()
	for _, o := range opts {
		o.apply(&cfg)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, done: make(chan struct{}), listeners: map[net.Listener]*Front{},
		conns: map[*conn]struct{}{}, tree: tree.New(cfg.extended), sessions: map[int64]*session{},
		// The server id, 1, in the top byte, then the time. Source: SessionTrackerImpl.initializeNextSessionId.
		lastSession: int64(uint64(time.Now().UnixMilli())<<24>>8 | 1<<56),
		tracker:     newTracker(cfg.tick), healed: make(chan struct{}), history: history{limit: cfg.history},
		traceMask: 306,
	}
	s.SetLatency(cfg.latency)
	s.SetWriteLatency(cfg.writeLatency)
	s.ledger = newLedger(s)
	for id := range cfg.fronts {
		s.fronts = append(s.fronts, newFront(s, id+1))
	}
	s.leader = s.fronts[cfg.fronts-1]
	for _, f := range s.fronts {
		f.role = s.roleOf(f)
	}
	if err := s.listenAll(); err != nil {
		s.Close()
		return nil, err
	}
	if len(s.fronts) > 1 {
		s.nextEpoch()
		s.fillConfig()
	}
	s.wg.Go(s.expireLoop)
	s.wg.Go(s.reapLoop)
	return s, nil
}

// admit starts to serve a connection, unless the server is refusing it.
func (s *Server) admit(nc net.Conn, label string, f *Front) bool {
	s.lock()
	defer s.unlock()
	if s.refuses(label) || f.stopped {
		return false
	}
	c := newConn(f, nc, label)
	s.lastConn++
	c.id = s.lastConn
	s.conns[c] = struct{}{}
	s.stallConn(c)
	s.startMute(c)
	s.wg.Go(func() {
		var writer sync.WaitGroup
		writer.Go(c.write)
		c.read()
		writer.Wait()
		s.lock()
		delete(s.conns, c)
		s.unlock()
	})
	return true
}

// Close stops the server: connections end, listeners close, and every goroutine of it has returned when Close does.
// A second Close waits as well and does nothing else.
func (s *Server) Close() {
	s.lock()
	if !s.closed {
		s.closed = true
		close(s.done)
		s.closeListeners(nil)
		for c := range s.conns {
			s.release(c, abrupt)
		}
	}
	s.unlock()
	s.wg.Wait()
}

func (s *Server) lock() { s.mu.Lock() }

// unlock also reports violations, now that the function that gets them may call the server.
func (s *Server) unlock() {
	fresh := s.untold
	s.untold = nil
	s.mu.Unlock()
	for _, err := range fresh {
		s.cfg.onViolation(err)
	}
}

// maxViolations bounds the list of violations: a client that repeats one must not fill the memory.
const maxViolations = 1000

// report takes note of a violation. The caller holds mu.
func (s *Server) report(err error) {
	if len(s.violations) < maxViolations {
		s.violations = append(s.violations, err)
	}
	if s.cfg.onViolation != nil {
		s.untold = append(s.untold, err)
	}
}

// ErrMisuse marks violations that a client has caused: a real server accepts the request and is damaged by it, or does
// something else than the client seems to mean.
var ErrMisuse = errors.New("misuse")

func (s *Server) misuse(format string, args ...any) {
	s.report(fmt.Errorf("%w: %s", ErrMisuse, fmt.Sprintf(format, args...)))
}

func (s *Server) violate(format string, args ...any) {
	s.report(fmt.Errorf(format, args...))
}

// record ends a transaction and adds it to the history.
func (s *Server) record(t *txn, op proto.Op, path string, code proto.Code) {
	entry := Txn{Zxid: t.zxid, Time: t.time, Op: Op(op), Path: path, Err: Code(code), Changes: t.done}
	if t.session != nil {
		entry.Session, entry.Client = t.session.id, t.session.client
	}
	s.history.add(entry)
	s.ledger.check(t)
}
