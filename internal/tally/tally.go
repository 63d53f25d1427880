// Package tally counts the bytes that the end of a session will take.
package tally

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/outcome"
)

// Tally counts the bytes of the transaction that ends a session. It contains the paths of all ephemeral nodes of the
// session, and servers write it however long it is. They read at most 2 × jute.maxbuffer, both from their logs and from
// their leader. A session with more therefore takes all servers down when it ends, and none of them can start again.
//
// The count is never below what a server may have: a node counts from before its create is sent until a server reports
// that it is gone. A create in doubt counts until it is settled. One case remains: a server that hung executes a create
// after its replacement has answered that the node does not exist. Refusing nodes above three quarters of the limit
// leaves room for that.
//
// Paths are those of the server. A Tally is safe for concurrent use.
//
// Source: CloseSessionTxn of ZooKeeper 3.6 and newer; BinaryInputArchive.checkLength; ZOOKEEPER-4306.
type Tally struct {
	log  *slog.Logger
	most int // bytes that servers read

	mu     sync.Mutex
	bytes  int
	nodes  map[string]struct{} // existing nodes, by path
	doubts map[Node]int        // bytes of creates whose outcome is unknown
	warned bool
}

// What the transaction contains besides the paths: a TxnHeader, the number of paths, a TxnDigest; and the length before
// each path.
const (
	bytesOfEnd    = 32 + 4 + 12
	bytesOfLength = 4
	bytesOfNumber = 11 // a negative sequence number has a sign
)

// New returns the tally of a session without nodes. juteMax is the jute.maxbuffer of the servers, and log receives the
// warning that the session will soon be full.
func New(juteMax int, log *slog.Logger) *Tally {
	return &Tally{
		log: log, most: min(2*juteMax, math.MaxInt32), bytes: bytesOfEnd,
		nodes: make(map[string]struct{}), doubts: make(map[Node]int),
	}
}

// Node is an ephemeral node that a request creates. The server appends a number to the path of a sequential one.
type Node struct {
	path       string
	sequential bool
}

// Bytes returns the most bytes that the node may take.
func (n Node) Bytes() int {
	if n.sequential {
		return bytesOfPath(n.path) + bytesOfNumber
	}
	return bytesOfPath(n.path)
}

func bytesOfPath(path string) int { return bytesOfLength + len(path) }

// NodeOf returns the node that a create makes, and reports whether it is ephemeral.
func NodeOf(path string, flags int32) (Node, bool) {
	return Node{path, flags&zk.FlagSequence != 0}, flags&zk.FlagEphemeral != 0
}

// Bytes returns how many bytes the end of the session takes, as far as is known.
func (t *Tally) Bytes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

// Admit counts the nodes that a request creates, before it is sent. path is the request's path as its caller sees it.
//
// Errors: ErrSessionFull, in which case nothing is counted.
func (t *Tally) Admit(op, path string, bytes int) error {
	t.mu.Lock()
	now, limit := t.bytes+bytes, t.most/4*3
	if now > limit {
		t.mu.Unlock()
		return &zkrecipes.OpError{Op: op, Path: path, Err: fmt.Errorf(
			"%w: with this node, the end of the session would take %d bytes, above the limit of %d "+
				"(three quarters of 2 × jute.maxbuffer): spread the ephemeral nodes over several clients, shorten their paths, "+
				"or set WithMaxRequestSize if jute.maxbuffer of the servers is larger",
			zkrecipes.ErrSessionFull, now, limit)}
	}
	t.bytes = now
	warn := now > t.most/2 && !t.warned
	t.warned = t.warned || warn
	t.mu.Unlock()
	if warn {
		t.log.Warn(
			"zookeeper: the session approaches its limit of ephemeral nodes: use several clients, or shorter paths",
			"bytes", now, "limit", limit, "path", path)
	}
	return nil
}

// BytesOf returns how many bytes the ephemeral nodes created by a request with these operations take.
func BytesOf(ops []any) (bytes int) {
	for _, op := range ops {
		if r, ok := op.(*zk.CreateRequest); ok {
			if node, ok := NodeOf(r.Path, r.Flags); ok {
				bytes += node.Bytes()
			}
		}
	}
	return bytes
}

// Answered records the outcome of a request with these operations that was admitted for the given number of bytes.
func (t *Tally) Answered(ops []any, bytes int, responses []zk.MultiResponse, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes -= bytes
	for i, op := range ops {
		switch r := op.(type) {
		case *zk.CreateRequest:
			if node, ok := NodeOf(r.Path, r.Flags); ok {
				created := ""
				if err == nil {
					created = responses[i].String
				}
				t.created(node, created, err)
			}
		case *zk.DeleteRequest:
			if err == nil {
				t.remove(r.Path)
			}
		}
	}
}

// CreatedOne records the outcome of a request that was admitted for one node.
func (t *Tally) CreatedOne(node Node, path string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes -= node.Bytes()
	t.created(node, path, err)
}

// created records the outcome of a create, with the path of the created node. The caller holds mu.
func (t *Tally) created(node Node, path string, err error) {
	switch {
	case err == nil:
		t.add(path)
	case outcome.Of(err) == outcome.Unknown:
		t.doubt(node)
	}
}

// add counts an existing node. The caller holds mu.
func (t *Tally) add(path string) (added bool) {
	t.settle(Node{path: path}, bytesOfPath(path))
	if _, known := t.nodes[path]; known {
		return false
	}
	t.nodes[path] = struct{}{}
	t.bytes += bytesOfPath(path)
	return true
}

// doubt counts a node that may exist. A node that is not sequential can exist only once. The caller holds mu.
func (t *Tally) doubt(node Node) {
	_, known := t.nodes[node.path]
	if !node.sequential && (known || t.doubts[node] > 0) {
		return
	}
	t.doubts[node] += node.Bytes()
	t.bytes += node.Bytes()
}

// settle subtracts the given number of bytes from what is in doubt. The caller holds mu.
func (t *Tally) settle(node Node, bytes int) {
	bytes = min(bytes, t.doubts[node])
	t.bytes -= bytes
	if t.doubts[node] -= bytes; t.doubts[node] == 0 {
		delete(t.doubts, node)
	}
}

// remove stops counting a node. The caller holds mu.
func (t *Tally) remove(path string) {
	t.settle(Node{path: path}, bytesOfPath(path))
	if _, known := t.nodes[path]; known {
		delete(t.nodes, path)
		t.bytes -= bytesOfPath(path)
	}
	t.warned = t.warned && t.bytes > t.most/4
}

// Gone records that a server has answered that the node does not exist, or no longer exists. What the session reads is
// never older than the answer to its create.
func (t *Tally) Gone(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(path)
}

// Found records the nodes that a search for the path prefix has found. If the answer to their create was lost, they are
// no longer in doubt.
func (t *Tally) Found(prefix string, paths ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, path := range paths {
		if !t.add(path) {
			continue
		}
		for node := range t.doubts {
			if strings.HasPrefix(node.path, prefix) {
				t.settle(node, node.Bytes())
				break
			}
		}
	}
}

// Settled records that no nodes with the path prefix exist, and that none is in doubt. found lists those that an
// earlier search had found.
func (t *Tally) Settled(prefix string, found ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, path := range found {
		t.remove(path)
	}
	for node, bytes := range t.doubts {
		if strings.HasPrefix(node.path, prefix) {
			t.settle(node, bytes)
		}
	}
}
