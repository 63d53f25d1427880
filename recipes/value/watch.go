package value

import (
	"context"
	"iter"

	"github.com/zkrecipes/zkrecipes"
)

// View is the node as it was read, with its freshness.
type View[T any] struct {
	// Value is the zero value if the node does not exist, or if its data does not decode.
	Value T
	// Version is the version of the node; zero if there is none.
	Version Version
	// Err is why the data of the node does not decode, and nil if it does.
	Err error
	zkrecipes.Freshness
}

// Watch yields the current value, then every change, including creation and deletion of the node. A slow caller gets
// the newest state rather than those it has missed, and never an older state after a newer one. Data that does not
// decode is yielded as a view with an error, and Watch continues.
//
// In three cases Watch yields the last view again at once, with Current false: the connection is lost, a read takes an
// eighth of the session timeout, or no server has answered for a whole session timeout. When the client has
// reconnected, Watch reads again and yields a current view, in the next session if necessary. A current view reflects
// one server, which may lag behind its leader; [Value.Get] asks for the newest value.
//
// The iteration ends as described in package [zkrecipes], under "Conventions". Its error is zk.ErrNoAuth, ErrClosed, or
// another error of the server.
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
