package zktest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// Server is a ZooKeeper server in this process: a standalone one, with one tree, its sessions and its watches in
// memory. All methods are safe for concurrent use. After Close connections are refused, and what is left can still be
// looked at.
type Server struct {
	cfg  config
	done chan struct{} // closed by Close
	wg   sync.WaitGroup
	thaw gate // closed while the server is frozen

	faults faults

	// mu guards what follows, and is never held while waiting for anything but another mutex.
	mu                        sync.Mutex
	closed, down, frozen      bool
	listeners                 map[net.Listener]struct{}
	addr                      string
	conns                     map[*conn]struct{} // those with live goroutines
	lastConn                  uint64
	lastPort                  int
	tree                      *tree
	zxid                      int64
	sessions                  map[int64]*session
	lastSession               int64
	tracker                   *tracker
	dataWatches, childWatches *watchTable
	stalls                    []stall
	refused                   []Who
	healed                    chan struct{} // closed when a stall ends
	history                   history
	ledger                    ledger
	violations                []error
	told                      int // violations that have been reported
	scratch                   encoder
	received                  int64
}

// Run starts a server for a test, on a free port of the loopback unless [InMemory] is given, and closes it when the
// test ends. A violation (see [OnViolation]) fails the test.
func Run(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	own := []Option{WithListener("127.0.0.1:0"), OnViolation(func(err error) { tb.Errorf("zktest: %v", err) })}
	s, err := Start(append(own, opts...)...)
	if err != nil {
		tb.Fatalf("zktest: %v", err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Start starts a server without a listener, for programs and for tests that want to close it themselves: clients come
// in through [Server.Dial], or [Server.Serve] or [WithListener] open a port.
// Errors: an option out of range, or that of net.Listen; nothing is left running then.
func Start(opts ...Option) (*Server, error) {
	cfg := defaults()
	for _, o := range opts {
		o.apply(&cfg)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, done: make(chan struct{}), listeners: map[net.Listener]struct{}{}, addr: "127.0.0.1:2181",
		conns: map[*conn]struct{}{}, tree: newTree(cfg.extended), sessions: map[int64]*session{},
		// The server id, 1, in the top byte, then the time. Source: SessionTrackerImpl.initializeNextSessionId.
		lastSession: int64(uint64(time.Now().UnixMilli())<<24>>8 | 1<<56),
		tracker:     newTracker(cfg.tick), healed: make(chan struct{}), history: history{limit: cfg.history},
		dataWatches: newWatchTable(cfg.traits.watchesAddUp), childWatches: newWatchTable(cfg.traits.watchesAddUp),
	}
	s.ledger = newLedger(s)
	if cfg.listen != "" {
		l, err := net.Listen("tcp", cfg.listen)
		if err != nil {
			return nil, fmt.Errorf("zktest: %w", err)
		}
		s.addr = l.Addr().String()
		s.wg.Go(func() { _ = s.Serve(l) }) // ends with the server
	}
	s.wg.Go(s.expireLoop)
	s.wg.Go(s.reapLoop)
	return s, nil
}

// Addr is the server's address: host and port of the listener of [Run] or [WithListener]; without one, an address that
// only [Server.Dial] and its like understand.
func (s *Server) Addr() string { return s.addr }

// Serve accepts connections from l until the server is closed, which is when it returns nil, or until l fails. It
// closes l.
func (s *Server) Serve(l net.Listener) error { return s.ServeAs("", l) }

// ServeAs is [Server.Serve] for connections with a label: give each client a listener of its own, and faults find it.
func (s *Server) ServeAs(label string, l net.Listener) error {
	defer func() { _ = l.Close() }() // a second Close says so, and does nothing
	if !s.keep(l) {
		return nil
	}
	for {
		nc, err := l.Accept()
		if err != nil {
			s.lock()
			delete(s.listeners, l)
			closed := s.closed
			s.unlock()
			if closed && errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("zktest: %w", err)
		}
		if !s.admit(nc, label) {
			_ = nc.Close() // refused
		}
	}
}

func (s *Server) keep(l net.Listener) bool {
	s.lock()
	defer s.unlock()
	if !s.closed {
		s.listeners[l] = struct{}{}
	}
	return !s.closed
}

// admit starts to serve a connection, unless the server is refusing it.
func (s *Server) admit(nc net.Conn, label string) bool {
	s.lock()
	defer s.unlock()
	if s.refuses(label) {
		return false
	}
	c := newConn(s, nc, label)
	s.lastConn++
	c.id = s.lastConn
	s.conns[c] = struct{}{}
	s.stallConn(c)
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
		for l := range s.listeners {
			_ = l.Close() // Accept reports it
		}
		for c := range s.conns {
			s.release(c, abrupt)
		}
	}
	s.unlock()
	s.wg.Wait()
}

func (s *Server) lock() { s.mu.Lock() }

// unlock also reports violations, now that whoever gets them may call the server.
func (s *Server) unlock() {
	fresh := s.violations[s.told:]
	s.told = len(s.violations)
	s.mu.Unlock()
	if s.cfg.onViolation == nil {
		return
	}
	for _, err := range fresh {
		s.cfg.onViolation(err)
	}
}

// ErrMisuse marks violations that are the fault of a client: it did what damages or confuses a real server.
var ErrMisuse = errors.New("misuse")

func (s *Server) misuse(format string, args ...any) {
	s.violations = append(s.violations, fmt.Errorf("%w: %s", ErrMisuse, fmt.Sprintf(format, args...)))
}

func (s *Server) violate(format string, args ...any) {
	s.violations = append(s.violations, fmt.Errorf(format, args...))
}

// record ends a transaction: it is history now.
func (s *Server) record(t *txn, op Op, path string, code Code) {
	entry := Txn{Zxid: t.zxid, Time: t.time, Op: op, Path: path, Err: code, Changes: t.done}
	if t.session != nil {
		entry.Session, entry.Client = t.session.id, t.session.client
	}
	s.history.add(entry)
	s.ledger.check(t)
}
