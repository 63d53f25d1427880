package conn

import "github.com/go-zookeeper/zk"

// ZK returns the library's object under the session, to do behind our back what the library's own queue does.
func (s *Session) ZK() *zk.Conn { return s.zk }

// Occupy makes it look as if requests of ours were under way with the first n xids.
func (s *Session) Occupy(n int32, answered func()) {
	l := s.upLink()
	l.mu.Lock()
	defer l.mu.Unlock()
	for xid := range n {
		l.pending[xid] = pending{answer: func(reply, error) { answered() }}
	}
}
