package session

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// ephemerals counts the bytes of the transaction that ends the session. It has the paths of all ephemeral nodes of
// the session, and servers write it however long it is. They read at most 2 × jute.maxbuffer: from their logs, and
// from their leader. A session with more therefore takes all servers down with it when it ends, and none starts
// again.
//
// The count is never below what a server may have: a node counts from before its create is sent until a server
// reports that it is gone. A create in doubt counts until it is settled. One case is left: a server that hung
// executes a create after its replacement has answered that there is no such node. What is refused above three
// quarters leaves room for that.
//
// Source: CloseSessionTxn of ZooKeeper 3.6 and newer; BinaryInputArchive.checkLength; ZOOKEEPER-4306.
type ephemerals struct {
	most int // what servers read

	mu     sync.Mutex
	bytes  int
	nodes  map[string]struct{} // by absolute path: the existing ones
	doubts map[asked]int       // bytes of creates whose outcome is unknown
	warned bool
}

// What the transaction has beside the paths: a TxnHeader, the number of paths, a TxnDigest; and before each path its length.
const (
	bytesOfEnd    = 32 + 4 + 12
	bytesOfLength = 4
	bytesOfNumber = 11 // a sequence number below zero has a sign
)

func (e *ephemerals) init(maxRequest int) {
	juteMax := maxRequest + belowJuteMax - 1
	e.most, e.bytes = min(2*juteMax, math.MaxInt32), bytesOfEnd
	e.nodes, e.doubts = make(map[string]struct{}), make(map[asked]int)
}

// asked is an ephemeral node that a request makes. The path is absolute; to that of a sequential node the server adds a number.
type asked struct {
	path       string
	sequential bool
}

// bytes returns how many the node takes at most.
func (a asked) bytes() int {
	if a.sequential {
		return bytesOfPath(a.path) + bytesOfNumber
	}
	return bytesOfPath(a.path)
}

func bytesOfPath(path string) int { return bytesOfLength + len(path) }

// ephemeralOf returns the ephemeral node that a create makes, if it does.
func ephemeralOf(r *zk.CreateRequest) (asked, bool) {
	return asked{r.Path, r.Flags&zk.FlagSequence != 0}, r.Flags&zk.FlagEphemeral != 0
}

// admit counts nodes that a request makes. It is called before the request is sent. The path is as the client sees it.
//
// Errors: ErrSessionFull, and nothing is counted.
func (s *session) admit(op, path string, bytes int) error {
	e := &s.ephemerals
	e.mu.Lock()
	now, limit := e.bytes+bytes, e.most/4*3
	if now > limit {
		e.mu.Unlock()
		return &OpError{Op: op, Path: path, Err: fmt.Errorf("%w: with this its end would take %d bytes, of at most %d (three quarters of 2 × "+
			"jute.maxbuffer): spread the ephemeral nodes over several clients, shorten their paths, or set WithMaxRequestSize if "+
			"jute.maxbuffer of the servers is larger", zkrecipes.ErrSessionFull, now, limit)}
	}
	e.bytes = now
	warn := now > e.most/2 && !e.warned
	e.warned = e.warned || warn
	e.mu.Unlock()
	if warn {
		s.opts.Log.Warn("zookeeper: the session has many ephemeral nodes, and more are refused soon: use several clients, or shorter paths",
			"bytes", now, "limit", limit, "path", path)
	}
	return nil
}

// admission returns what admits a request of these operations; nil if they make no ephemeral node. The outcome goes to done.
func (s *session) admission(op, path string, ops []any) (admit func() error, done func(t transaction, err error)) {
	bytes := 0
	for _, op := range ops {
		if r, ok := op.(*zk.CreateRequest); ok {
			if node, ok := ephemeralOf(r); ok {
				bytes += node.bytes()
			}
		}
	}
	if bytes > 0 {
		admit = func() error { return s.admit(op, path, bytes) }
	}
	return admit, func(t transaction, err error) {
		e := &s.ephemerals
		e.mu.Lock()
		defer e.mu.Unlock()
		e.bytes -= bytes
		for i, op := range ops {
			switch r := op.(type) {
			case *zk.CreateRequest:
				if node, ok := ephemeralOf(r); ok {
					created := ""
					if err == nil {
						created = t.responses[i].String
					}
					e.created(node, created, err)
				}
			case *zk.DeleteRequest:
				if err == nil {
					e.remove(r.Path)
				}
			}
		}
	}
}

// createdOne takes the outcome of a request that was admitted for one node.
func (e *ephemerals) createdOne(node asked, path string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes -= node.bytes()
	e.created(node, path, err)
}

// created takes the outcome of a create, and the absolute path of what it made. Called with mu held.
func (e *ephemerals) created(node asked, path string, err error) {
	switch {
	case err == nil:
		e.add(path)
	case outcomeOf(err) == unknown:
		e.doubt(node)
	}
}

// add counts an existing node. Called with mu held.
func (e *ephemerals) add(path string) (added bool) {
	e.settle(asked{path: path}, bytesOfPath(path))
	if _, known := e.nodes[path]; known {
		return false
	}
	e.nodes[path] = struct{}{}
	e.bytes += bytesOfPath(path)
	return true
}

// doubt counts a node that may be there. Without a number it can be there only once. Called with mu held.
func (e *ephemerals) doubt(node asked) {
	_, known := e.nodes[node.path]
	if !node.sequential && (known || e.doubts[node] > 0) {
		return
	}
	e.doubts[node] += node.bytes()
	e.bytes += node.bytes()
}

// settle takes so many bytes off what is in doubt. Called with mu held.
func (e *ephemerals) settle(node asked, bytes int) {
	bytes = min(bytes, e.doubts[node])
	e.bytes -= bytes
	if e.doubts[node] -= bytes; e.doubts[node] == 0 {
		delete(e.doubts, node)
	}
}

// remove counts a node no more. Called with mu held.
func (e *ephemerals) remove(path string) {
	e.settle(asked{path: path}, bytesOfPath(path))
	if _, known := e.nodes[path]; known {
		delete(e.nodes, path)
		e.bytes -= bytesOfPath(path)
	}
	e.warned = e.warned && e.bytes > e.most/4
}

// gone records that a server has answered that there is no such node, or no longer. What the session reads is never
// older than the answer to its create.
func (e *ephemerals) gone(path string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remove(path)
}

// Found takes which nodes a search has found whose paths begin with prefix. If an answer to their create was lost, they are not
// in doubt any more.
func (s *Session) Found(prefix string, paths ...string) {
	e := &s.ephemerals
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, path := range paths {
		if !e.add(s.Abs(path)) {
			continue
		}
		for node := range e.doubts {
			if strings.HasPrefix(node.path, s.Abs(prefix)) {
				e.settle(node, node.bytes())
				break
			}
		}
	}
}

// Settled records that there are no nodes whose paths begin with prefix, and that none is in doubt. A search had
// found some before.
func (s *Session) Settled(prefix string, found ...string) {
	e := &s.ephemerals
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, path := range found {
		e.remove(s.Abs(path))
	}
	for node, bytes := range e.doubts {
		if strings.HasPrefix(node.path, s.Abs(prefix)) {
			e.settle(node, bytes)
		}
	}
}
