package value

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes"
)

// OpSet returns the operation that replaces the value that was read with old, for use in the caller's own transaction:
// [zkrecipes.Hold.Txn] or [conn.Client.Multi]. With the zero Version it creates the node, but no parents. OpSet sends
// nothing.
//
// If the value has changed since, the transaction writes nothing, and its error matches zk.ErrBadVersion, zk.ErrNoNode
// or zk.ErrNodeExists. The servers compare data versions only, and unlike [Value.CompareAndSet] nothing reads the node
// first. A node that was deleted, created again and written as often is therefore mistaken for the old one.
//
// If the outcome is unknown, the caller may send the transaction again. At most one copy is applied, unless the node is
// deleted in between. However, the error of the second copy does not show whether the first was applied or another
// client has written. To find out, have the same transaction create a node with a unique name.
//
// The transaction must be sent through the client of the value, or another one with the same connection and the same
// root; see [conn.Client.Sub]. Otherwise it fails before any request.
//
// Errors: a value that the codec cannot encode.
func (v *Value[T]) OpSet(x T, old Version) (zkrecipes.Op, error) {
	data, err := v.encode(x)
	if err != nil {
		return zkrecipes.Op{}, err
	}
	if !old.Exists() {
		return v.own(zkrecipes.OpCreate(v.path, data, 0)), nil
	}
	return v.exactly(zkrecipes.OpSet(v.path, data, old.Number)), nil
}

// OpCheck returns the operation that lets the caller's transaction succeed only if the value is the one that was read
// with old. For the errors of the transaction, and what it compares, see [Value.OpSet].
//
// Errors: the zero Version, because servers cannot check that a node is missing; a Version whose Number is -1, which
// servers treat as any version. Only other clients leave -1, and the next write ends it.
func (v *Value[T]) OpCheck(old Version) (zkrecipes.Op, error) {
	if !old.Exists() {
		return zkrecipes.Op{}, v.failed("check", errMissing)
	}
	if old.Number == -1 {
		return zkrecipes.Op{}, v.failed("check", errNoCheck)
	}
	return v.exactly(zkrecipes.OpCheck(v.path, old.Number)), nil
}

// OpDelete returns the operation that deletes the node if the value is the one that was read with old. For the errors
// of the transaction, and what it compares, see [Value.OpSet].
//
// Errors: the zero Version, because there is nothing to delete.
func (v *Value[T]) OpDelete(old Version) (zkrecipes.Op, error) {
	if !old.Exists() {
		return zkrecipes.Op{}, v.failed("delete", errMissing)
	}
	return v.exactly(zkrecipes.OpDelete(v.path, old.Number)), nil
}

var (
	errMissing = errors.New("the version is of a missing node: want one of a node that was read")
	errNoCheck = errors.New("the data version is -1, which servers take for any: write the value once, and read it again")
)

// own binds op to the root under which its path is that of the value.
func (v *Value[T]) own(op zkrecipes.Op) zkrecipes.Op {
	op.Root = v.client.Root()
	return op
}

// exactly is like own, for an operation that applies only to the version that was read.
func (v *Value[T]) exactly(op zkrecipes.Op) zkrecipes.Op {
	op.Exact = true
	return v.own(op)
}

// OpAdd reads the counter and returns the sum of what it has read and delta, with the operation that writes this sum.
// The operation is the OpSet of the sum, with the same limits: the transaction fails if another client has added since,
// and the caller must then call OpAdd again.
//
// The exactly-once guarantee of [Counter.Add] does not apply to the caller's transaction, which does not write the
// marker. If its outcome is unknown, do not call OpAdd again before you know that nothing was applied, because it would
// add twice. The transaction does not interfere with Add, which compares the version too.
//
// Errors: a sum that overflows, or that the codec cannot encode; a node that does not decode; those of [Value.Get].
func (c *Counter) OpAdd(ctx context.Context, delta int64) (op zkrecipes.Op, sum int64, err error) {
	n, old, err := c.Get(ctx)
	if err != nil {
		return zkrecipes.Op{}, 0, err
	}
	if sum, err = c.sum(n, delta); err != nil {
		return zkrecipes.Op{}, 0, err
	}
	if op, err = c.OpSet(sum, old); err != nil {
		return zkrecipes.Op{}, 0, err
	}
	return op, sum, nil
}
