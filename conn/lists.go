package conn

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// lists are the requests for the children of one path that have begun and not come back. They look alike as they pass the
// link, so one that passes may be any of them; but once as many have passed as have begun, all have.
type lists struct {
	begun, passed int
	waiting       []func() // to be called then
	doubt         bool     // one came back that may not have passed: nobody can be told any more
}

// listBegins is called before a request for the children of path; then, if not nil, once it has passed.
func (s *session) listBegins(path string, then func()) *lists {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lists[path]
	if l == nil {
		l = &lists{}
		s.lists[path] = l
	}
	l.begun++
	if then != nil {
		l.waiting = append(l.waiting, then)
	}
	return l
}

// listPassed is called by the link.
func (s *session) listPassed(path string) {
	s.mu.Lock()
	var tell []func()
	if l := s.lists[path]; l != nil {
		l.passed++
		if l.passed == l.begun && !l.doubt {
			tell, l.waiting = l.waiting, nil
		}
	}
	s.mu.Unlock()
	for _, f := range tell {
		f()
	}
}

// listEnds is called when a request has come back.
func (s *session) listEnds(path string, l *lists, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.begun--
	l.passed--
	l.doubt = l.doubt || !answered
	if l.begun == 0 {
		delete(s.lists, path)
	}
}

type family struct {
	names []string
	stat  zk.Stat
}

// listing returns what asks for the children of a path, as f does.
func (s *Session) listing(path string, then func(), f func(z *zk.Conn, abs string) ([]string, *zk.Stat, error)) func(*zk.Conn) (family, error) {
	abs := s.abs(path)
	return func(z *zk.Conn) (family, error) {
		l := s.listBegins(abs, then)
		names, stat, err := f(z, abs)
		outcome := refused
		if err != nil {
			outcome, _ = classify(err)
		}
		s.listEnds(abs, l, outcome == refused)
		d, err := toData(nil, stat, err)
		return family{names, d.stat}, err
	}
}

func children(z *zk.Conn, abs string) ([]string, *zk.Stat, error) { return z.Children(abs) }

// Children returns the names of a node's children, in no order.
func (s *Session) Children(ctx context.Context, path string) ([]string, error) {
	names, _, err := s.ChildrenThen(ctx, path, nil)
	return names, err
}

// ChildrenStat is Children with the Stat of their parent.
func (s *Session) ChildrenStat(ctx context.Context, path string) ([]string, zk.Stat, error) {
	return s.ChildrenThen(ctx, path, nil)
}

// ChildrenThen is ChildrenStat that calls sent when whatever is asked from now on in this session is asked after it, long
// before the answer: for one who wants both answers in one round trip, and in this order. It is called on a goroutine of
// the connection and must not wait for anything; again if the request is repeated on another connection; and not at all
// if one cannot tell.
func (s *Session) ChildrenThen(ctx context.Context, path string, sent func()) ([]string, zk.Stat, error) {
	if err := checkRequest("children", path, 0); err != nil {
		return nil, zk.Stat{}, err
	}
	f, err := perform(ctx, s, "children", path, readOnly, s.listing(path, sent, children))
	return f.names, f.stat, err
}

// ChildrenW is Children with a watch on the list.
func (s *Session) ChildrenW(ctx context.Context, path string) ([]string, *Watch, error) {
	if err := checkRequest("children", path, 0); err != nil {
		return nil, nil, err
	}
	set := func(z *zk.Conn, abs string) ([]string, *zk.Stat, error) {
		names, stat, _, err := z.ChildrenW(abs)
		return names, stat, err
	}
	f, w, err := watched(ctx, s, "children", path, watchChildren, s.listing(path, nil, set), s.listing(path, nil, children))
	return f.names, w, err
}
