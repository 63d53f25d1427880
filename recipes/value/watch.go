package value

import (
	"context"
	"iter"

	"github.com/zkrecipes/zkrecipes"
)

// View is a value as it was read, with its freshness.
type View[T any] struct {
	// Value is the zero value if the node does not exist, or if its data does not decode.
	Value T
	// Version is the node's version; zero if there is no node.
	Version Version
	// Err is why the node's data does not decode, or nil if it does.
	Err error
	zkrecipes.Freshness
}

// Watch yields the current value, then every change, including creation and deletion of the node. A slow caller gets
// the newest state rather than those it missed, and never an older state after a newer one. Data that does not decode
// is yielded as a view with an error, and Watch continues.
//
// If the connection is lost, a read takes an eighth of the session timeout, or no server answers for a whole session
// timeout, Watch yields the last view again at once, with Current false. When the client reconnects, in the next
// session if necessary, Watch reads again and yields a current view. Even a current view reflects one server, which may
// lag behind its leader, so use [Value.Get] if you need the newest value.
//
// Iteration ends as described under "Conventions" in package [zkrecipes], with zk.ErrNoAuth, ErrClosed or another error
// from the server if Watch cannot continue.
//
// Source: the listener of Curator's SharedValue, which is not notified that the node is gone.
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
