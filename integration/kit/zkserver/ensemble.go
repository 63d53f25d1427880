package zkserver

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/loopback"
)

// firstUser is the user id of the first member of an ensemble that runs WithOwnUsers. Ensembles may share user ids,
// because the rules of Isolate include addresses.
const firstUser = 61001

// peer is what distinguishes a member of an ensemble from a standalone server.
type peer struct {
	id       int
	quorum   int // port on which the leader accepts followers
	election int
}

// An Ensemble is a set of servers that replicate each other, each on a different loopback address.
type Ensemble struct {
	Servers []*Server

	host  func(n int) string // of each server
	opts  []Option
	rules []string // of iptables, those in force
}

// StartEnsemble runs n servers until the end of the test. It ignores ZKRECIPES_SERVERS.
func StartEnsemble(tb testing.TB, n int, opts ...Option) *Ensemble {
	tb.Helper()
	e := &Ensemble{host: loopback.Block(), opts: opts}
	tb.Cleanup(func() {
		if err := e.Rejoin(); err != nil {
			tb.Error(err)
		}
		for _, s := range e.Servers {
			s.finish(tb)
		}
	})
	if newConfig(opts).ownUsers && os.Geteuid() != 0 {
		tb.Fatal("servers under users of their own take root: run as root or without WithOwnUsers")
	}
	for range n {
		_, err := e.add()
		require(tb, err)
	}
	require(tb, e.launch())
	return e
}

// add adds a server that is neither configured nor started.
func (e *Ensemble) add() (*Server, error) {
	id := len(e.Servers) + 1
	s, err := newServer(e.host(id), "org.apache.zookeeper.server.quorum.QuorumPeerMain", e.opts)
	if err != nil {
		return nil, err
	}
	s.peer.id = id
	if s.cfg.ownUsers {
		s.uid = firstUser + id - 1
	}
	e.Servers = append(e.Servers, s)
	return s, nil
}

func (e *Ensemble) launch() error {
	var members strings.Builder
	for _, s := range e.Servers {
		members.WriteString(s.member() + "\n")
	}
	for _, s := range e.Servers {
		if err := s.configure(members.String()); err != nil {
			return err
		}
	}
	for _, s := range e.Servers {
		if err := s.launch(); err != nil {
			return err
		}
	}
	for _, s := range e.Servers {
		if err := s.waitReady(); err != nil {
			return err
		}
	}
	return nil
}

// Addr returns the connect string that names all servers.
func (e *Ensemble) Addr() string {
	addrs := make([]string, len(e.Servers))
	for i, s := range e.Servers {
		addrs[i] = s.Addr()
	}
	return strings.Join(addrs, ",")
}

// Leader waits until one server leads, and returns it.
func (e *Ensemble) Leader() (*Server, error) {
	return e.await("leads", func(s *Server) bool { return s.is("leader") })
}

// Follower waits until one server follows, and returns it.
func (e *Ensemble) Follower() (*Server, error) {
	return e.await("follows", func(s *Server) bool { return s.is("follower") })
}

func (s *Server) is(mode string) bool {
	m, err := s.Mode()
	return err == nil && m == mode
}

func (e *Ensemble) await(what string, ok func(*Server) bool) (*Server, error) {
	for deadline := time.Now().Add(most); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, s := range e.Servers {
			if s.Running() && !s.paused && ok(s) {
				return s, nil
			}
		}
	}
	return nil, fmt.Errorf("no server %s after %v", what, most)
}

// WaitReady returns once every running server serves and exactly one of them leads. A replaced leader may keep serving
// until it notices.
func (e *Ensemble) WaitReady() error {
	for deadline := time.Now().Add(most); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		leaders := 0
		for _, s := range e.Servers {
			if !s.Running() {
				continue
			}
			if err := s.waitReady(); err != nil {
				return err
			}
			if s.is("leader") {
				leaders++
			}
		}
		if leaders == 1 {
			return nil
		}
	}
	return fmt.Errorf("no single leader after %v", most)
}
