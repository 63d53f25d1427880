package shard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Source supplies the names of the shards: [List], [Func] or [Node]. Only the leader's source counts, so give all
// members the same one. A name must be a valid node name, without a slash. A set must have at least one name, and no
// name twice.
//
// If the source supplies nothing to a new leader for a second, the leader continues with the last plan's shards until
// the source does.
type Source struct {
	names func(context.Context, *Shards) iter.Seq2[[]string, error]
	check func(*Shards) error // what can be checked immediately
}

// List is a set that does not change while a member runs. If members are given different lists, the current leader's
// list counts: each shard in it is served, even by members whose own list doesn't contain it.
func List(names ...string) Source {
	names = slices.Clone(names)
	return Source{
		names: func(context.Context, *Shards) iter.Seq2[[]string, error] {
			return func(yield func([]string, error) bool) { yield(names, nil) }
		},
		check: func(s *Shards) error { return s.checkNames(names) },
	}
}

// Func is a set that the leader obtains by calling f. It calls f immediately, and then again each time after pausing
// for the given interval. If f fails or returns an invalid set, the leader logs the error and keeps the last set. f
// must return when its context is done, because the leader resigns only after that.
func Func(every time.Duration, f func(context.Context) ([]string, error)) Source {
	return Source{
		names: func(ctx context.Context, s *Shards) iter.Seq2[[]string, error] {
			return func(yield func([]string, error) bool) {
				for ctx.Err() == nil {
					names, err := f(ctx)
					if err != nil && ctx.Err() == nil {
						s.log.Error("shard: cannot get the set of shards, keeping the previous one", "path", s.path, "error", err)
					}
					if err == nil && !yield(names, nil) {
						return
					}
					_ = session.Sleep(ctx, every) // the loop checks ctx
				}
			}
		},
		check: func(*Shards) error {
			if f == nil || every <= 0 {
				return errors.New("Func: want a function, and a pause of more than 0")
			}
			return nil
		},
	}
}

// Node is the set that [Shards.SetNames] writes to the node "shards" below the path, as a list of names in JSON. While
// that node is missing or cannot be read, the last set is kept; if there is no last set, no plan is made.
func Node() Source {
	return Source{
		names: func(ctx context.Context, s *Shards) iter.Seq2[[]string, error] {
			return func(yield func([]string, error) bool) {
				for ctx.Err() == nil {
					for view, err := range s.names.Watch(ctx) {
						if err == nil {
							err = view.Err
						}
						switch {
						case errors.Is(err, zkrecipes.ErrClosed):
							yield(nil, err)
							return
						case err != nil:
							s.log.Error("shard: cannot read the set of shards, keeping the previous one",
								"path", s.names.Path(), "error", err)
						case view.Current && view.Version.Exists() && !yield(view.Value, nil):
							return
						}
					}
					_ = session.Sleep(ctx, tryAgain) // the loop checks ctx
				}
			}
		},
		check: func(*Shards) error { return nil },
	}
}

// SetNames replaces the set for [Node], whatever it was. Running members pick up the change.
//
// Errors: before sending any request, an invalid set; ErrUnknownOutcome if a reply was lost and another client has
// written since; or the server's error.
func (s *Shards) SetNames(ctx context.Context, names ...string) error {
	err := s.checkNames(names)
	if err == nil {
		_, err = s.names.Set(ctx, names)
	}
	if err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	return nil
}

// checkNames returns an error if the set is invalid.
func (s *Shards) checkNames(names []string) error {
	if len(names) == 0 {
		return errors.New("no shards: want at least one name")
	}
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if err := paths.ValidateName("shard", name); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("shard %q is listed twice: want each name once", name)
		}
		seen[name] = true
	}
	if _, err := s.checkSize(newPlan(names, nil, nil)); err != nil {
		return fmt.Errorf("%d shards: %w", len(names), err)
	}
	return nil
}

// checkSize returns the size of a plan, and an error if one node cannot hold it.
func (s *Shards) checkSize(p plan) (size int, err error) {
	data, err := planCodec.Encode(p)
	if err != nil {
		return 0, err
	}
	if err := (*client.Client)(s.client).CheckCreate(s.plan.Path(), data, 1); err != nil {
		return len(data), fmt.Errorf("the plan does not fit in a node: want fewer shards or shorter names: %w", err)
	}
	return len(data), nil
}
