package value

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes"
)

// OpSet returns the operation that replaces the value that was read with old, for a transaction of the caller:
// [zkrecipes.Hold.Txn], [conn.Client.Multi]. With the zero Version it creates the node, and no parents. OpSet sends nothing.
//
// If the value has changed since, the transaction writes nothing. Its error matches zk.ErrBadVersion, zk.ErrNoNode or
// zk.ErrNodeExists. The servers compare data versions only, and nothing reads the node first, as [Value.CompareAndSet] does. So a
// node that was deleted, made again and written as often is taken for the old one.
//
// If the outcome is unknown, the caller may send the transaction again. At most one copy is applied, unless the node is deleted
// in between. But the error of the second copy does not tell whether the first was applied or another client has written. A
// node of a unique name that the same transaction creates does tell.
//
// The transaction must be sent through the client of the value, or another one with the same connection and the same root: see
// [conn.Client.Sub]. Else it fails before any request.
//
// Errors: a value that the codec does not encode.
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

// OpCheck returns the operation that lets a transaction of the caller pass only if the value is the one that was read with
// old. See [Value.OpSet] for errors of the transaction, and for what it compares.
//
// Errors: the zero Version, because servers have no check that a node is missing; a Version whose Number is -1, which servers take for any,
// and which only other clients leave: the next write ends it.
func (v *Value[T]) OpCheck(old Version) (zkrecipes.Op, error) {
	if !old.Exists() {
		return zkrecipes.Op{}, v.failed("check", errMissing)
	}
	if old.Number == -1 {
		return zkrecipes.Op{}, v.failed("check", errNoCheck)
	}
	return v.exactly(zkrecipes.OpCheck(v.path, old.Number)), nil
}

// OpDelete returns the operation that deletes the node if the value is the one that was read with old. See [Value.OpSet] for errors
// of the transaction, and for what it compares.
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

// own binds op to the root under which the path is that of the value.
func (v *Value[T]) own(op zkrecipes.Op) zkrecipes.Op {
	op.Root = v.client.Root()
	return op
}

// exactly is own for an operation on the version that was read.
func (v *Value[T]) exactly(op zkrecipes.Op) zkrecipes.Op {
	op.Exact = true
	return v.own(op)
}

// OpAdd reads the counter, and returns the operation that adds delta to what it has read, and the sum. It is the OpSet of that
// sum, with the same limits: a transaction fails if another client has added since, and the caller calls OpAdd again.
//
// The exactly-once of [Counter.Add] is not for a transaction of the caller, which does not write the marker. If its outcome is
// unknown, OpAdd must not be called again before the caller knows that nothing was applied: it would add twice. The transaction
// does not disturb an Add, which compares the version too.
//
// Errors: a sum that does not fit, or that the codec has no bytes for; a node that does not decode; those of [Value.Get].
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
