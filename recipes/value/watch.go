package value

import (
	"context"
	"iter"

	"github.com/zkrecipes/zkrecipes"
)

// View is what was read of the node, and says how old it is.
type View[T any] struct {
	// Value is the zero value if there is no node, or if its data do not decode.
	Value T
	// Version of the node; the zero Version if there is none.
	Version Version
	// Err says why the data of the node do not decode; nil if they do.
	Err error
	zkrecipes.Freshness
}

// Watch tells the value now, then every change, also that the node is made or deleted. A slow caller gets the newest state,
// and not what it has missed. It never gets an older state after a newer one. Data that do not decode are told as a view
// with an error, and Watch goes on.
//
// In three cases Watch tells the last view again at once, with Current false: the connection is lost, a reading takes an eighth of
// the session timeout, or no server has answered for a whole session timeout. When the client is connected again, Watch reads
// again and tells a current view, in the next session if need be. A current view is what one server knows, which may be behind its
// leader: [Value.Get] asks for the newest.
//
// It ends, without an error, when ctx does or the caller stops; with one, the last it tells, when it cannot go on: zk.ErrNoAuth,
// ErrClosed, or what the server said.
//
// Source: the listener of Curator's SharedValue, which is not told that the node is gone.
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
