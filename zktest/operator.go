package zktest

import (
	"slices"

	"github.com/zkrecipes/zkrecipes/zktest/internal/access"
	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// operator runs a write of the server itself, which may do everything.
func (s *Server) operator(
	op proto.Op, path string, prepare func(*ensemble.Txn) (tree.Change, proto.Code),
) (*tree.Node, error) {
	s.lock()
	defer s.unlock()
	return s.write(op, path, prepare)
}

// write is operator for a caller that holds mu.
func (s *Server) write(
	op proto.Op, path string, prepare func(*ensemble.Txn) (tree.Change, proto.Code),
) (*tree.Node, error) {
	n, code := s.state.Write(nil, []access.Identity{access.SuperUser}, op, path, prepare)
	if code != proto.CodeOK {
		return nil, code
	}
	return n, nil
}

// Create creates a node that all clients may access, and returns its path, which ends in a number in the sequential
// modes. Ephemeral nodes and nodes with a time to live are rejected.
//
// Errors: a [Code].
func (s *Server) Create(path string, data []byte, mode Mode) (string, error) {
	if mode.Ephemeral() || mode.TTL() {
		return "", CodeBadArguments
	}
	op := proto.OpCreate
	if mode == Container {
		op = proto.OpCreateContainer
	}
	r := ensemble.Create{Op: op, Path: path, Data: slices.Clone(data), ACL: proto.OpenACL, Mode: mode, TTL: -1}
	n, err := s.operator(op, path, func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.Create(r) })
	if err != nil {
		return "", err
	}
	return n.Path, nil
}

// Set replaces a node's data.
//
// Errors: a [Code].
func (s *Server) Set(path string, data []byte) error {
	data = slices.Clone(data)
	_, err := s.operator(proto.OpSetData, path,
		func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.SetData(path, data, -1) })
	return err
}

// Delete deletes a node, even an ephemeral one.
//
// Errors: a [Code].
func (s *Server) Delete(path string) error {
	_, err := s.operator(proto.OpDelete, path,
		func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.Delete(path, -1) })
	return err
}

// DeleteAll deletes a node and all nodes below it, children first, each in a transaction of its own. It stops at the
// first error.
//
// Errors: a [Code].
func (s *Server) DeleteAll(path string) error {
	for _, name := range s.Children(path) {
		child := path + "/" + name
		if path == "/" {
			child = path + name
		}
		if tree.Special(child) {
			continue
		}
		if err := s.DeleteAll(child); err != nil {
			return err
		}
	}
	return s.Delete(path)
}

// SetVersion sets a node's data version to n, as up to 2^32 writes could do.
//
// Errors: [CodeNoNode].
func (s *Server) SetVersion(path string, n int32) error {
	s.lock()
	defer s.unlock()
	node := s.state.Tree.Get(path)
	if node == nil {
		return CodeNoNode
	}
	node.Version = n
	return nil
}

// SetCversion sets the sequence number of a node's next child to n. After 2147483647 the counter no longer advances.
//
// Errors: [CodeNoNode].
func (s *Server) SetCversion(path string, n int32) error {
	s.lock()
	defer s.unlock()
	parent := s.state.Tree.Get(path)
	if parent == nil {
		return CodeNoNode
	}
	s.state.SetCversion(parent, n)
	return nil
}

// Reconfigure makes the fronts the members of the ensemble, as an operator does with reconfig; it requires
// [WithReconfig]. Initially all fronts are members. A majority of the new members must be running.
//
// Clients that watch /zookeeper/config are notified. A front that has left keeps serving its clients and accepts new
// ones, but it doesn't count toward the majority, and once stopped it can't be started again. If it was the leader,
// another one takes its place, and all connections end after the event is sent.
//
// Errors: a [Code], as for the operation reconfig.
func (s *Server) Reconfigure(members ...*Front) error {
	s.lock()
	defer s.unlock()
	var fronts []*ensemble.Front
	for _, f := range members {
		fronts = append(fronts, f.state)
	}
	r := ensemble.Reconfig{Members: s.state.MembersOf(fronts), Version: -1}
	_, err := s.write(proto.OpReconfig, ensemble.ConfigPath,
		func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.Reconfig(r) })
	if err == nil {
		s.state.Adopt()
	}
	return err
}
