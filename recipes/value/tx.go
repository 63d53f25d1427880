package value

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/record"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Tx is one attempt of [UpdateAll]. [Value.Read] and [Value.Write] take it. It must not be used by several goroutines
// at once, nor after the function has returned.
type Tx struct {
	client *client.Client
	draft  *record.Draft
}

// UpdateAll changes several values atomically: it calls fn, which reads and writes values with the Tx, and then applies
// all writes in one transaction, or none. The transaction succeeds only if no other client has in the meantime written
// a value that fn has read; otherwise UpdateAll calls fn again. Concurrent calls therefore take effect as if they ran
// one after another.
//
// fn may be called any number of times, and must have no other effect. Within one call, it may see values of different
// moments, but then what it writes and returns does not count. Even if fn returns an error or writes nothing, a
// transaction checks that what it has read is the state of the servers, and otherwise fn is called again.
//
// A call takes a round trip for each value, one after another, and one for the transaction. A value that fn has read
// and left missing is created and deleted in the transaction, with missing parents, because servers cannot check that a
// node is missing. Watches notice that. A value with the data version -1, which only other clients leave, is rewritten
// with its own data if fn has only read it.
//
// UpdateAll compares data versions. Only a node that was deleted, created again and written as often in the meantime is
// mistaken for the old one.
//
// Errors: a nil client or fn, at once; the error of fn, and nothing was written; data that a codec cannot decode or
// encode, if fn returns them; ErrUnknownOutcome if the reply was lost and the nodes do not show whether this call wrote
// them, as in [Value.Update]; ErrTooLarge if the transaction does not fit into one request; otherwise the error of the
// server.
//
// Source: software transactional memory, as in package concurrency of etcd.
func UpdateAll(ctx context.Context, c *conn.Client, fn func(tx *Tx) error) error {
	switch {
	case c == nil:
		return errors.New("update all: client is nil: want one made by conn.Dial")
	case fn == nil:
		return errors.New("update all: the function is nil: want one that reads and writes values")
	case ctx == nil:
		return fmt.Errorf("update all: %w", session.ErrNoContext)
	}
	inner := (*client.Client)(c)
	return record.Joint{Client: inner, Next: func(d *record.Draft) error { return fn(&Tx{inner, d}) }}.Do(ctx)
}

// Read returns the value in a transaction: what tx itself has written, or otherwise what the node holds. A missing node
// is not an error: the value is the zero value.
//
// Errors: a client with another connection or root than that of [UpdateAll]; data that the codec does not decode; the
// error of the server, after which UpdateAll fails.
func (v *Value[T]) Read(tx *Tx) (T, error) {
	var none T
	if err := v.belongsTo(tx); err != nil {
		return none, err
	}
	data, exists, err := tx.draft.Read(v.path)
	if err != nil {
		return none, err
	}
	return v.decode(session.Node{Data: data, Exists: exists})
}

// Write replaces the value in a transaction. It reads the node first if the transaction has not.
//
// Errors: those of [Value.Read], except that nothing is decoded; a value that the codec cannot encode.
func (v *Value[T]) Write(tx *Tx, x T) error {
	if err := v.belongsTo(tx); err != nil {
		return err
	}
	data, err := v.encode(x)
	if err != nil {
		return err
	}
	return tx.draft.Write(v.path, data)
}

func (v *Value[T]) belongsTo(tx *Tx) error {
	if err := session.RequireRoot(v.client.Root(), tx.client.Root()); err != nil {
		return v.failed("update all", fmt.Errorf("the value %w", err))
	}
	return nil
}
