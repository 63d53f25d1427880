package zktest

import (
	"cmp"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
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
		list := s.reapable()
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

// reapable lists what a pass would remove, oldest first. A container that never had a child stays.
func (s *Server) reapable() []string {
	var list []*node
	for n := range s.tree.containers {
		age := time.Duration(time.Now().UnixMilli()-n.mtime) * time.Millisecond
		switch {
		case n.children.Len() > 0:
		case n.owner != ownerContainer:
			if ttl := n.owner &^ ownerTTLMask; age.Milliseconds() > ttl {
				list = append(list, n)
			}
		case n.cversion > 0, s.cfg.neverUsed > 0 && age > s.cfg.neverUsed:
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *node) int { return cmp.Compare(a.czxid, b.czxid) })
	paths := make([]string, len(list))
	for i, n := range list {
		paths[i] = n.path
	}
	return paths
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
	_, code := s.write(q, path, func(t *txn) (change, proto.Code) {
		if code := deletable(path); code != proto.CodeOK {
			return change{}, code
		}
		return t.deleteContainer(path)
	})
	return code
}

// Reap makes the pass over containers and nodes with a time to live now, without pauses, and returns what it removed.
func (s *Server) Reap() []string {
	s.lock()
	defer s.unlock()
	return slices.DeleteFunc(s.reapable(), func(path string) bool { return !s.reap(path) })
}
