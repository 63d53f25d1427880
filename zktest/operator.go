package zktest

import (
	"fmt"
	"slices"
	"strings"

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
		return nil, refusal(op, path, code)
	}
	return n, nil
}

// refusal returns the error of an operator's call.
func refusal(op proto.Op, path string, code Code) error {
	err := fmt.Errorf("zktest: %v %s: %w", op, path, code)
	if advice := reconfigAdvice[code]; op == proto.OpReconfig && advice != "" {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	return err
}

// reconfigAdvice says what a reconfiguration lacks.
var reconfigAdvice = map[Code]string{
	CodeReconfigDisabled:  "want WithReconfig",
	CodeUnimplemented:     "want WithFronts",
	CodeBadArguments:      "want at least two fronts",
	CodeNewConfigNoQuorum: "want fronts most of which are running",
}

// Create creates a node that all clients may access, and returns its path, which ends in a number in the sequential
// modes. Ephemeral nodes and nodes with a time to live are rejected.
//
// Errors: one that matches a [Code], as do those of the other methods that write.
func (s *Server) Create(path string, data []byte, mode Mode) (string, error) {
	if mode.Ephemeral() || mode.TTL() {
		return "", fmt.Errorf("%w: want a mode without a session and without a time to live",
			refusal(proto.OpCreate, path, CodeBadArguments))
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
func (s *Server) Set(path string, data []byte) error {
	data = slices.Clone(data)
	_, err := s.operator(proto.OpSetData, path,
		func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.SetData(path, data, -1) })
	return err
}

// Delete deletes a node, even an ephemeral one.
func (s *Server) Delete(path string) error {
	_, err := s.operator(proto.OpDelete, path,
		func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.Delete(path, -1) })
	return err
}

// DeleteAll deletes a node and all nodes below it, children first, each in a transaction of its own. The root and
// ZooKeeper's own nodes, which no client can delete, stay. It stops at the first error.
func (s *Server) DeleteAll(path string) error {
	for _, name := range s.Children(path) {
		if err := s.DeleteAll(strings.TrimSuffix(path, "/") + "/" + name); err != nil {
			return err
		}
	}
	if tree.Special(path) {
		return nil
	}
	return s.Delete(path)
}

// SetVersion sets a node's data version to n, as up to 2^32 writes could do.
//
// Errors: one that matches [CodeNoNode].
func (s *Server) SetVersion(path string, n int32) error {
	s.lock()
	defer s.unlock()
	node := s.node(path)
	if node == nil {
		return fmt.Errorf("zktest: set the version of %s: %w", path, CodeNoNode)
	}
	node.Version = n
	return nil
}

// SetCversion sets the sequence number of a node's next child to n. After 2147483647 the counter no longer advances.
//
// Errors: one that matches [CodeNoNode].
func (s *Server) SetCversion(path string, n int32) error {
	s.lock()
	defer s.unlock()
	parent := s.node(path)
	if parent == nil {
		return fmt.Errorf("zktest: set the sequence number of %s: %w", path, CodeNoNode)
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
// Errors: one that matches a [Code], as for the operation reconfig.
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
