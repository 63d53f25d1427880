package session

import "github.com/go-zookeeper/zk"

// ZK returns the library's object under the session, to do behind our back what the library's own queue does.
func (s *Session) ZK() *zk.Conn { return s.zk }
