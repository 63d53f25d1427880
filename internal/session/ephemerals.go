package session

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// ephemerals counts the bytes of the transaction that ends the session. It contains the paths of all ephemeral nodes of
// the session, and servers write it however long it is. They read at most 2 × jute.maxbuffer, both from their logs and
// from their leader. A session with more therefore takes all servers down when it ends, and none of them starts again.
//
// The count is never below what a server may have: a node counts from before its create is sent until a server reports
// that it is gone. A create in doubt counts until it is settled. One case remains: a server that hung executes a create
// after its replacement has answered that the node does not exist. Refusing nodes above three quarters of the limit
// leaves room for that.
//
// Source: CloseSessionTxn of ZooKeeper 3.6 and newer; BinaryInputArchive.checkLength; ZOOKEEPER-4306.
type ephemerals struct {
	most int // bytes that servers read

	mu     sync.Mutex
	bytes  int
	nodes  map[string]struct{} // existing nodes, by absolute path
	doubts map[asked]int       // bytes of creates whose outcome is unknown
	warned bool
}

// What the transaction contains besides the paths: a TxnHeader, the number of paths, a TxnDigest; and the length before
// each path.
const (
	bytesOfEnd    = 32 + 4 + 12
	bytesOfLength = 4
	bytesOfNumber = 11 // a negative sequence number has a sign
)

func (e *ephemerals) init(maxRequest int) {
	juteMax := maxRequest + belowJuteMax - 1
	e.most, e.bytes = min(2*juteMax, math.MaxInt32), bytesOfEnd
	e.nodes, e.doubts = make(map[string]struct{}), make(map[asked]int)
}

// asked is an ephemeral node that a request creates. The path is absolute; the server appends a number to a sequential
// one.
type asked struct {
	path       string
	sequential bool
}

// bytes returns how many bytes the node takes at most.
func (a asked) bytes() int {
	if a.sequential {
		return bytesOfPath(a.path) + bytesOfNumber
	}
	return bytesOfPath(a.path)
}

func bytesOfPath(path string) int { return bytesOfLength + len(path) }

// ephemeralOf returns the ephemeral node that a create of an absolute path makes, if any.
func ephemeralOf(path string, flags int32) (asked, bool) {
	return asked{path, flags&zk.FlagSequence != 0}, flags&zk.FlagEphemeral != 0
}

// admit counts the nodes that a request creates, before it is sent. path is as the client sees it.
//
// Errors: ErrSessionFull, in which case nothing is counted.
func (s *session) admit(op, path string, bytes int) error {
	e := &s.ephemerals
	e.mu.Lock()
	now, limit := e.bytes+bytes, e.most/4*3
	if now > limit {
		e.mu.Unlock()
		return &OpError{Op: op, Path: path, Err: fmt.Errorf(
			"%w: with this its end would take %d bytes, of at most %d (three quarters of 2 × "+
				"jute.maxbuffer): spread the ephemeral nodes over several clients, shorten their paths, or set WithMaxRequestSize if "+
				"jute.maxbuffer of the servers is larger",
			zkrecipes.ErrSessionFull, now, limit)}
	}
	e.bytes = now
	warn := now > e.most/2 && !e.warned
	e.warned = e.warned || warn
	e.mu.Unlock()
	if warn {
		s.opts.Log.Warn(
			"zookeeper: the session has many ephemeral nodes, and more are refused soon: use several clients, or shorter paths",
			"bytes", now, "limit", limit, "path", path)
	}
	return nil
}

// bytesOfEphemerals returns how many bytes the ephemeral nodes created by a request with these operations take.
func bytesOfEphemerals(ops []any) (bytes int) {
	for _, op := range ops {
		if r, ok := op.(*zk.CreateRequest); ok {
			if node, ok := ephemeralOf(r.Path, r.Flags); ok {
				bytes += node.bytes()
			}
		}
	}
	return bytes
}

// answered records the outcome of a request with these operations that was admitted for the given number of bytes.
func (e *ephemerals) answered(ops []any, bytes int, t transaction, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes -= bytes
	for i, op := range ops {
		switch r := op.(type) {
		case *zk.CreateRequest:
			if node, ok := ephemeralOf(r.Path, r.Flags); ok {
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

// createdOne records the outcome of a request that was admitted for one node.
func (e *ephemerals) createdOne(node asked, path string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes -= node.bytes()
	e.created(node, path, err)
}

// created records the outcome of a create, with the absolute path of the created node. The caller holds mu.
func (e *ephemerals) created(node asked, path string, err error) {
	switch {
	case err == nil:
		e.add(path)
	case outcomeOf(err) == unknown:
		e.doubt(node)
	}
}

// add counts an existing node. The caller holds mu.
func (e *ephemerals) add(path string) (added bool) {
	e.settle(asked{path: path}, bytesOfPath(path))
	if _, known := e.nodes[path]; known {
		return false
	}
	e.nodes[path] = struct{}{}
	e.bytes += bytesOfPath(path)
	return true
}

// doubt counts a node that may exist. A node that is not sequential can exist only once. The caller holds mu.
func (e *ephemerals) doubt(node asked) {
	_, known := e.nodes[node.path]
	if !node.sequential && (known || e.doubts[node] > 0) {
		return
	}
	e.doubts[node] += node.bytes()
	e.bytes += node.bytes()
}

// settle subtracts the given number of bytes from what is in doubt. The caller holds mu.
func (e *ephemerals) settle(node asked, bytes int) {
	bytes = min(bytes, e.doubts[node])
	e.bytes -= bytes
	if e.doubts[node] -= bytes; e.doubts[node] == 0 {
		delete(e.doubts, node)
	}
}

// remove stops counting a node. The caller holds mu.
func (e *ephemerals) remove(path string) {
	e.settle(asked{path: path}, bytesOfPath(path))
	if _, known := e.nodes[path]; known {
		delete(e.nodes, path)
		e.bytes -= bytesOfPath(path)
	}
	e.warned = e.warned && e.bytes > e.most/4
}

// gone records that a server has answered that the node does not exist, or no longer exists. What the session reads is
// never older than the answer to its create.
func (e *ephemerals) gone(path string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remove(path)
}

// Found records the nodes that a search has found with the path prefix. If the answer to their create was lost, they
// are no longer in doubt.
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

// Settled records that no nodes with the path prefix exist, and that none is in doubt. found are those that a search
// had found before.
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
