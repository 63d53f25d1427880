package value

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes"
)

// OpSet returns an operation that replaces the value if its version still equals old. Use it in a transaction of your
// own, with [zkrecipes.Hold.Txn] or [conn.Client.Multi]. If old is the zero Version, the operation creates the node,
// but not its parents. OpSet does not contact the servers.
//
// If the value has since changed, the transaction fails without having any effect, and its error matches
// zk.ErrBadVersion, zk.ErrNoNode or zk.ErrNodeExists. The servers compare only data versions and, unlike in
// [Value.CompareAndSet], the node is not read first. As a result, a node that was deleted, recreated and written the
// same number of times is mistaken for the one that was read.
//
// If the outcome is unknown, you can send the transaction again: at most one copy is applied, unless the node is
// deleted in between. However, an error from the second copy does not tell you whether the first one was applied or
// another client wrote the value. To be able to find out, have the same transaction create a node with a unique name.
//
// Send the transaction through the value's client, or another client with the same connection and the same root (see
// [conn.Client.Sub]). Otherwise it fails before sending any request.
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

// OpCheck returns an operation that makes your transaction fail unless the value's version still equals old. See
// [Value.OpSet] for what it compares and how the transaction fails.
//
// Errors: the zero Version, because servers cannot check that a node is missing; a Version whose Number is -1, because
// servers treat that as any version. Only other clients leave -1 behind, and the next write replaces it.
func (v *Value[T]) OpCheck(old Version) (zkrecipes.Op, error) {
	if !old.Exists() {
		return zkrecipes.Op{}, v.failed("check", errMissing)
	}
	if old.Number == -1 {
		return zkrecipes.Op{}, v.failed("check", errNoCheck)
	}
	return v.exactly(zkrecipes.OpCheck(v.path, old.Number)), nil
}

// OpDelete returns an operation that deletes the node if its version still equals old. See [Value.OpSet] for what it
// compares and how the transaction fails.
//
// Errors: the zero Version, because there is nothing to delete.
func (v *Value[T]) OpDelete(old Version) (zkrecipes.Op, error) {
	if !old.Exists() {
		return zkrecipes.Op{}, v.failed("delete", errMissing)
	}
	return v.exactly(zkrecipes.OpDelete(v.path, old.Number)), nil
}

var (
	errMissing = errors.New("the version belongs to a missing node: want one of a node that was read")
	errNoCheck = errors.New("the data version is -1, which servers take for any version: write the value once, " +
		"and read it again")
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

// OpAdd reads the counter, adds delta, and returns the sum along with the operation that writes it. The operation is
// the one that OpSet returns for the sum, so it has the same limits: if another client adds first, the transaction
// fails, and you must call OpAdd again.
//
// Your transaction does not write the marker, so unlike [Counter.Add] it is not guaranteed to count exactly once. If
// its outcome is unknown, don't call OpAdd again before you know that nothing was applied, because that could add
// twice. The transaction does not interfere with Add, which also compares the version.
//
// Errors: a sum that overflows, or that the codec cannot encode; a node that cannot be decoded; otherwise the same as
// [Value.Get].
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
