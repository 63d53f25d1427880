package session

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Children returns the names of a node's children, in no particular order.
func (s *Session) Children(ctx context.Context, path string) ([]string, error) {
	names, _, err := s.ChildrenThen(ctx, path, nil)
	return names, err
}

// ChildrenStat is Children with the Stat of their parent.
func (s *Session) ChildrenStat(ctx context.Context, path string) ([]string, zk.Stat, error) {
	return s.ChildrenThen(ctx, path, nil)
}

// ChildrenThen is like ChildrenStat, but also calls sent, long before the answer arrives, as soon as all later requests
// of the session are certain to reach the server after this one. A caller can therefore get two answers in one round
// trip, in a known order. sent must not block. It is called again if the request is repeated on another connection.
func (s *Session) ChildrenThen(ctx context.Context, path string, sent func()) ([]string, zk.Stat, error) {
	if err := paths.Check("children", path); err != nil {
		return nil, zk.Stat{}, err
	}
	f, err := ask(ctx, s, "children", path, repeatable, sent, func(done func(wire.Children, error)) request {
		return s.childrenRequest(path, false, done)
	})
	return f.Names, f.Stat, err
}

// ListFunc takes what ChildrenStat would have returned. It is usually called on the goroutine that reads from the
// connection, and must not block.
type ListFunc func(names []string, stat zk.Stat, err error)

// ReadChildren is like ChildrenThen, but does not wait: it calls listed once. Once the client is closed, it does
// nothing and reports false.
func (s *Session) ReadChildren(path string, sent func(), listed ListFunc) bool {
	if paths.Validate(path) == nil && s.SendNow(s.Context(), sent, []request{
		s.childrenRequest(path, false, s.firstAnswer(path, sent, listed)),
	}) {
		return true
	}
	return s.Go(func(ctx context.Context) { listed(s.ChildrenThen(ctx, path, sent)) })
}

// firstAnswer passes the answer to listed, or sends the request again if there was none.
func (s *Session) firstAnswer(path string, sent func(), listed ListFunc) func(wire.Children, error) {
	return func(f wire.Children, err error) {
		if err != nil {
			err = s.failed("children", path, repeatable, err)
		}
		if Repeatable(err) && s.Go(func(ctx context.Context) {
			_ = Sleep(ctx, RetryPause) // ChildrenThen checks ctx
			listed(s.ChildrenThen(ctx, path, sent))
		}) {
			return
		}
		listed(f.Names, f.Stat, err)
	}
}

func (s *Session) childrenRequest(path string, watch bool, done func(wire.Children, error)) request {
	return request{
		Op: wire.OpChildren, Path: path, Frame: wire.ReadFrame(wire.OpChildren, s.Abs(path), watch),
		Done: taking(wire.ChildrenReply, done),
	}
}

// ChildrenW implements conn.Session.ChildrenW.
func (s *Session) ChildrenW(ctx context.Context, path string) ([]string, *Watch, error) {
	names, _, w, err := s.ChildrenStatW(ctx, path)
	return names, w, err
}

// ChildrenStatW is ChildrenStat with a watch on the list.
func (s *Session) ChildrenStatW(ctx context.Context, path string) ([]string, zk.Stat, *Watch, error) {
	if err := paths.Check("children", path); err != nil {
		return nil, zk.Stat{}, nil, err
	}
	f, w, err := watched(ctx, s, "children", path, watchChildren, s.childrenRequest)
	return f.Names, f.Stat, w, err
}
