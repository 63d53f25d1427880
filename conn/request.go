package conn

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"
)

// Creates, deletes, transactions and requests for children go past the library, straight to the link and back: recipes
// live on them, and a call of the library takes two goroutines more to go out and one more to come back, which is most of
// what it costs a client. The rest, the watches above all, is the library's.

// request is one of ours.
type request struct {
	op    int32
	frame []byte // its xid is still to be set
	// answer takes the reply, or the error that there will be none. It is called once, on a goroutine of the session
	// that may read nothing else meanwhile.
	answer func(reply, error)
}

type reply struct {
	zxid int64
	body []byte
}

// send sends the requests in one go, and calls sent, if not nil, when they are out. It may wait for the connection to take
// them.
func (s *session) send(sent func(), requests ...request) {
	if l := s.upLink(); l == nil || !l.ask(sent, requests) {
		for _, r := range requests {
			r.answer(reply{}, zk.ErrNoServer)
		}
	}
}

// sendNow is send for one who must not wait. It reports false, and does nothing, if that might be needed.
func (s *session) sendNow(sent func(), requests ...request) bool {
	l := s.upLink()
	return l != nil && l.askNow(sent, requests)
}

// ask is perform for a request of ours; each try has its own, and calls sent, if not nil, before it has an answer.
func ask[T any](ctx context.Context, s *Session, op, path string, m mode, sent func(), requested func(done func(T, error)) request) (T, error) {
	return repeat(ctx, s, op, path, m, func() (*call[T], error) {
		c := newCall[T](op, path)
		end, sent := c.end, sent
		if sent != nil {
			sent = sync.OnceFunc(sent)
			end = func(value T, err error) {
				if err == nil {
					sent() // who writes may not have come to it
				}
				c.end(value, err)
			}
		}
		r := requested(end)
		if ctx.Err() == nil && s.sendNow(sent, r) {
			return c, nil
		}
		return c, start(ctx, s, c, func() { s.send(sent, r) })
	})
}

// errGarbled says that a reply was not what ZooKeeper sends. Whether the request was executed is not known then.
var errGarbled = errors.New("a reply that cannot be read")
