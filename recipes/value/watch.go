package value

import (
	"context"
	"iter"

	"github.com/zkrecipes/zkrecipes"
)

// View is a value as it was read, with its freshness.
type View[T any] struct {
	// Value is the zero value if the node does not exist, or if its data cannot be decoded.
	Value T
	// Version is the node's version; zero if there is no node.
	Version Version
	// Err is why the node's data cannot be decoded, or nil if there is no such error.
	Err error
	zkrecipes.Freshness
}

// Watch yields the current value, then every change to it, including creation and deletion of the node. If the caller
// is slow, it gets the latest state, and intermediate states are skipped; it never gets an older state after a newer
// one. If the data cannot be decoded, Watch yields a view with an error and continues.
//
// If the connection is lost, a read takes an eighth of the session timeout, or no server answers for a whole session
// timeout, Watch immediately yields the last view again, with Current set to false. When the client reconnects, in the
// next session if necessary, Watch reads again and yields a current view. Even a current view reflects one server,
// which may lag behind its leader, so if you need the latest value, use [Value.Get].
//
// Iteration ends as described under "Conventions" in package [zkrecipes]. If Watch cannot continue, the final error is
// zk.ErrNoAuth, ErrClosed, or another error from the server.
//
// Source: the listener of Curator's SharedValue, which is not notified when the node is deleted.
func (v *Value[T]) Watch(ctx context.Context) iter.Seq2[View[T], error] {
	return func(yield func(View[T], error) bool) {
		for seen, err := range v.client.Watch(ctx, v.path) {
			if err != nil {
				yield(View[T]{}, err)
				return
			}
			view := View[T]{Version: versionOf(&seen.Value.Stat), Freshness: seen.Freshness}
			view.Value, view.Err = v.decode(seen.Value)
			if !yield(view, nil) {
				return
			}
		}
	}
}
