package zktest

import (
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// reapPause lies between two removals of one pass. Source: znode.container.maxPerMinute, 10,000.
const reapPause = 6 * time.Millisecond

// reapLoop removes empty containers, and nodes whose time to live is over, until the server is closed.
//
// Source: ContainerManager.
func (s *Server) reapLoop() {
	timer := time.NewTimer(s.cfg.reap)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.done:
			return
		}
		timer.Reset(s.cfg.reap)
		s.lock()
		list := s.tree.Reapable(time.Now(), s.cfg.neverUsed)
		s.unlock()
		for i, path := range list {
			if i > 0 && !s.sleep(reapPause) {
				return
			}
			s.lock()
			if s.ticks() {
				s.reap(path)
			}
			s.unlock()
		}
	}
}

// sleep waits; false means that the server was closed first.
func (s *Server) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.done:
		return false
	}
}

// reap removes one node as a transaction of the server's own.
func (s *Server) reap(path string) bool {
	t := s.begin(nil, nil)
	c, code := t.deleteContainer(path)
	if code == proto.CodeOK {
		t.apply(c)
	}
	s.record(t, proto.OpDeleteContainer, path, code)
	return code == proto.CodeOK
}

// deleteContainer serves what only the server itself should send. Since 3.9, a client can delete any node with it that
// is empty and not ephemeral, and needs no permission. Before, the server takes the whole request for the path.
func (s *Server) deleteContainer(q *call) proto.Code {
	if !s.cfg.traits.DeletesContainers {
		return denied(proto.CodeBadArguments)(s, q)
	}
	path := q.in.Str()
	if path == proto.Null { // the real server breaks on it before it takes a zxid, unlike delete
		return proto.CodeMarshallingError
	}
	_, code := s.write(q, path, func(t *txn) (tree.Change, proto.Code) {
		if code := deletable(path); code != proto.CodeOK {
			return tree.Change{}, code
		}
		return t.deleteContainer(path)
	})
	return code
}

// Reap makes the pass over containers and nodes with a time to live now, without pauses, and returns what it removed.
func (s *Server) Reap() []string {
	s.lock()
	defer s.unlock()
	return slices.DeleteFunc(s.tree.Reapable(time.Now(), s.cfg.neverUsed), func(path string) bool { return !s.reap(path) })
}
