// Package zkserver runs real ZooKeeper servers for tests, one or an ensemble. Tests can kill, pause, restart and
// isolate them.
//
// A server is a child process that starts in about a second. WithRelease selects its release. If ZKRECIPES_SERVERS
// (host:port,…) is set, tests use those servers as they are, and no server is started. A test that needs other
// settings, or finds no server, is skipped; with REQUIRE_REAL=1 it fails.
package zkserver

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/loopback"
	"github.com/zkrecipes/zkrecipes/integration/kit/versions"
	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

// limit is how long a start may take on an idle machine. most is how long a start, an end or an election may take on a
// loaded one.
const (
	limit = 30 * time.Second
	most  = 6 * limit
)

// ErrExternal is the error of methods that work only on servers started by this package.
var ErrExternal = errors.New("server that is not ours: unset ZKRECIPES_SERVERS to have one started")

// A Server is one ZooKeeper process. Its address and its data outlive the process, so that Restart finds them again. It
// must not be used concurrently.
type Server struct {
	cfg  config
	host string // each has a different loopback address
	port int
	main string // Java class
	dir  string // zoo.cfg and data
	log  *os.File
	cp   string // Java class path
	uid  int    // of the process; 0 for the user of the test

	peer    peer   // its id is 0 for a standalone server
	members string // the lines of zoo.cfg about the ensemble

	proc     *exec.Cmd
	ended    chan struct{} // closed when proc has been reaped
	paused   bool
	external string // address of a server that was not started here; empty otherwise
}

// Start runs a standalone server until the end of the test.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s, err := Open(opts...)
	require(tb, err)
	tb.Cleanup(func() { s.finish(tb) })
	return s
}

// Open is Start for programs, which must close the server.
func Open(opts ...Option) (*Server, error) {
	if addrs := os.Getenv("ZKRECIPES_SERVERS"); addrs != "" {
		if len(opts) > 0 {
			return nil, fmt.Errorf("settings of a %w", ErrExternal)
		}
		return &Server{external: addrs}, nil
	}
	s, err := newServer(loopback.Block()(1), "org.apache.zookeeper.server.ZooKeeperServerMain", opts)
	if err != nil {
		return nil, err
	}
	if err = s.configure(""); err == nil {
		err = s.Restart()
	}
	if err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

// require ends a test that has no server: it skips the test, or fails it with REQUIRE_REAL=1.
func require(tb testing.TB, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case errors.Is(err, versions.ErrNotInstalled), errors.Is(err, ErrExternal):
		need.Missing(tb, err.Error())
	default:
		tb.Fatal(err)
	}
}

func newServer(host, main string, opts []Option) (*Server, error) {
	cfg := newConfig(opts)
	cp, err := classPath(cfg.release)
	if err != nil {
		return nil, err
	}
	ports, err := loopback.FreePorts(host, 3)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, host: host, port: ports[0], main: main, cp: cp}
	s.peer = peer{quorum: ports[1], election: ports[2]}
	if s.dir, err = os.MkdirTemp(memoryDir(), "zookeeper-"); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if s.log, err = os.CreateTemp("", "zookeeper-*.log"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, nil
}

// configure creates the directory of the server. An ensemble adds the lines in members to zoo.cfg.
func (s *Server) configure(members string) error {
	data := filepath.Join(s.dir, "data")
	if err := os.Mkdir(data, 0o750); err != nil {
		return err
	}
	s.members = members
	if err := s.writeConfig(); err != nil {
		return err
	}
	if s.peer.id != 0 {
		if err := os.WriteFile(filepath.Join(data, "myid"), fmt.Append(nil, s.peer.id), 0o640); err != nil {
			return err
		}
	}
	if s.uid == 0 {
		return nil
	}
	return filepath.WalkDir(s.dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, s.uid, s.uid))
	})
}

func (s *Server) writeConfig() error {
	cfg := fmt.Sprintf("dataDir=%s\n%s%s", filepath.Join(s.dir, "data"), s.cfg.zooCfg(), s.members)
	if !s.cfg.reconfig { // otherwise members contains it
		cfg += fmt.Sprintf("clientPort=%d\nclientPortAddress=%s\n", s.port, s.host)
	}
	return os.WriteFile(filepath.Join(s.dir, "zoo.cfg"), []byte(cfg), 0o640)
}

// Addr returns the host:port that clients connect to.
func (s *Server) Addr() string {
	if s.external != "" {
		return s.external
	}
	return net.JoinHostPort(s.host, fmt.Sprint(s.port))
}

// Ours reports whether this package started the server. If not, it cannot be killed, paused or restarted.
func (s *Server) Ours() bool { return s.external == "" }

// Log returns the file that the server logs to.
func (s *Server) Log() string {
	if s.log == nil {
		return ""
	}
	return s.log.Name()
}

// Data returns the directory of its snapshots and transaction logs, or "" if the server is not ours.
func (s *Server) Data() string {
	if s.external != "" {
		return ""
	}
	return filepath.Join(s.dir, "data")
}

// Configure changes the configuration, as an operator does before a restart. It returns an error for a server that runs
// WithReconfig, which maintains its configuration itself.
func (s *Server) Configure(opts ...Option) error {
	if s.cfg.reconfig {
		return errors.New("configure: the server keeps its configuration itself: start it without WithReconfig")
	}
	for _, opt := range opts {
		opt(&s.cfg)
	}
	return s.writeConfig()
}

// Restart starts the server with the same address and data, and waits until it serves. If it is running, it is stopped
// first.
func (s *Server) Restart() error {
	if err := s.Stop(); err != nil {
		return err
	}
	if err := s.launch(); err != nil {
		return err
	}
	return s.waitReady()
}

func (s *Server) launch() error {
	proc := exec.Command(javaCommand("java"), s.arguments()...)
	proc.Stdout, proc.Stderr, proc.Dir = s.log, s.log, s.dir
	proc.SysProcAttr = processAttr(s.uid)
	proc.Env = append(os.Environ(), s.cfg.env...)
	started := make(chan error)
	toStart() <- func() { started <- proc.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("start zookeeper: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = proc.Wait() // a signal ended it
	}()
	s.proc, s.ended, s.paused = proc, ended, false
	return nil
}

// toStart receives functions that start servers. They run on one thread, which never ends: when a thread ends, the
// kernel kills the servers that it has started, and a thread of a test may end.
var toStart = sync.OnceValue(func() chan<- func() {
	starts := make(chan func())
	go func() { // ends with the process
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
	return starts
})

func (s *Server) arguments() []string {
	args := []string{
		"-Xms32m", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData",
		"-Dzookeeper.jmx.log4j.disable=true",
		"-Djava.net.preferIPv4Stack=true", // openedBy reads only the IPv4 table
	}
	args = append(args, s.cfg.jvm...) // if two contradict each other, Java uses the last
	for _, p := range s.cfg.properties {
		args = append(args, "-D"+p)
	}
	return append(args, "-cp", s.cp, s.main, filepath.Join(s.dir, "zoo.cfg"))
}

// tooLong reports that a server that does not serve yet never will. A start takes about two seconds of processor time,
// which may take much longer than limit on a loaded machine.
func tooLong(passed, cpu time.Duration) bool {
	return passed > limit && cpu > 10*time.Second || passed > most
}

// waitReady returns once the server executes requests. Its port opens earlier.
func (s *Server) waitReady() error {
	start, before := time.Now(), CPU(s.proc.Process.Pid)
	for {
		_, err := s.Mode()
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("zookeeper ended at its start, see %s:\n%s", s.Log(), s.tail())
		case <-time.After(10 * time.Millisecond):
		}
		if passed, cpu := time.Since(start), CPU(s.proc.Process.Pid)-before; tooLong(passed, cpu) {
			return fmt.Errorf("zookeeper does not serve after %v with %v of processor time: %w, see %s:\n%s", passed, cpu, err,
				s.Log(), s.tail())
		}
	}
}

// Running reports whether the process exists, paused or not.
func (s *Server) Running() bool {
	if s.proc == nil {
		return false
	}
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// Kill kills the process, as kill -9 does, and waits until it is gone.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// Stop ends the process with SIGTERM, and waits until it is gone. It does nothing if the server is not running.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM) }

func (s *Server) end(sig syscall.Signal) error {
	if s.external != "" {
		return ErrExternal
	}
	if !s.Running() {
		return nil
	}
	for _, sig := range []syscall.Signal{sig, syscall.SIGCONT} {
		// A process that has ended may have been reaped before ended is closed.
		if err := s.proc.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	select {
	case <-s.ended:
		return nil
	case <-time.After(most):
		return fmt.Errorf("zookeeper survives %v for %v, see %s", sig, most, s.Log())
	}
}

// Pause stops the process with SIGSTOP. Its connections stay open, and it answers nothing.
func (s *Server) Pause() error {
	if err := s.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(most); !stopped(s.proc.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("zookeeper still runs %v after %v", most, syscall.SIGSTOP)
		}
	}
	return nil
}

// Resume continues a paused process.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) error {
	if s.external != "" {
		return ErrExternal
	}
	if !s.Running() {
		return fmt.Errorf("%v: zookeeper does not run", sig)
	}
	s.paused = sig == syscall.SIGSTOP
	return s.proc.Process.Signal(sig)
}

// PID returns the process id of the server, or 0 if it is not running.
func (s *Server) PID() int {
	if !s.Running() {
		return 0
	}
	return s.proc.Process.Pid
}

// Close kills the server and removes its data and its log.
func (s *Server) Close() error {
	if s.external != "" {
		return nil
	}
	return errors.Join(s.remove(), os.Remove(s.Log()))
}

// remove is Close, but keeps the log for whoever examines a failed test.
func (s *Server) remove() error { return errors.Join(s.Kill(), s.log.Close(), os.RemoveAll(s.dir)) }

// finish is Close at the end of a test. If the test failed, it keeps the log.
func (s *Server) finish(tb testing.TB) {
	tb.Helper()
	if s.external == "" && tb.Failed() {
		tb.Logf("zookeeper %s log: %s", s.Addr(), s.Log())
		if err := s.remove(); err != nil {
			tb.Error(err)
		}
		return
	}
	if err := s.Close(); err != nil {
		tb.Error(err)
	}
}

// tail returns the end of the log.
func (s *Server) tail() string {
	text, err := os.ReadFile(s.Log())
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-40):], []byte("\n")))
}
