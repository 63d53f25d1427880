package session

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

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
// the session and must not wait for anything; again if the request is repeated on another connection.
func (s *Session) ChildrenThen(ctx context.Context, path string, sent func()) ([]string, zk.Stat, error) {
	if err := checkPath("children", path); err != nil {
		return nil, zk.Stat{}, err
	}
	f, err := ask(ctx, s, "children", path, readOnly, sent, func(done func(wire.Children, error)) request {
		return s.childrenRequest(path, false, done)
	})
	return f.Names, f.Stat, err
}

// Listed takes what ChildrenStat would have returned. It is called on a goroutine of the session, which reads nothing else
// meanwhile, and must not wait for anything.
type Listed func(names []string, stat zk.Stat, err error)

// ReadChildren is ChildrenThen for one who does not wait: listed is called once. It reports false, and does nothing, once
// the client is closed.
func (s *Session) ReadChildren(path string, sent func(), listed Listed) bool {
	if ValidatePath(path) == nil && s.sendNow(sent, []request{s.childrenRequest(path, false, s.firstAnswer(path, sent, listed))}) {
		return true
	}
	return s.Go(func(ctx context.Context) { listed(s.ChildrenThen(ctx, path, sent)) })
}

// firstAnswer hands the answer on, and if there was none, asks again.
func (s *Session) firstAnswer(path string, sent func(), listed Listed) func(wire.Children, error) {
	return func(f wire.Children, err error) {
		if err != nil {
			err = s.failed("children", path, readOnly, err)
		}
		if retryRead(err) && s.Go(func(ctx context.Context) {
			_ = sleep(ctx, retryPause) // what follows looks at ctx
			listed(s.ChildrenThen(ctx, path, sent))
		}) {
			return
		}
		listed(f.Names, f.Stat, err)
	}
}

func (s *Session) childrenRequest(path string, watch bool, done func(wire.Children, error)) request {
	return request{wire.OpChildren, wire.ReadFrame(wire.OpChildren, s.abs(path), watch), taking(wire.ChildrenReply, done)}
}

// ChildrenW is Children with a watch on the list.
func (s *Session) ChildrenW(ctx context.Context, path string) ([]string, *Watch, error) {
	if err := checkPath("children", path); err != nil {
		return nil, nil, err
	}
	f, w, err := watched(ctx, s, "children", path, watchChildren, s.childrenRequest)
	return f.Names, w, err
}
