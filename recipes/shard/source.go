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
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Source says which shards there are: [List], [Func] or [Node]. The source of the leader counts, so all members have the same one.
// A name is that of a node: it has no slash. A set has at least one name, and none twice.
//
// If the source tells a new leader nothing for a second, the leader goes on with the shards of the last plan until it does.
type Source struct {
	names func(context.Context, *Shards) iter.Seq2[[]string, error]
	check func(*Shards) error // what can be said at once
}

// List is a set that does not change while a member runs. If members are given different lists, each shard of the list of the
// present leader is served, also by members that do not have it in theirs.
func List(names ...string) Source {
	names = slices.Clone(names)
	return Source{
		names: func(context.Context, *Shards) iter.Seq2[[]string, error] {
			return func(yield func([]string, error) bool) { yield(names, nil) }
		},
		check: func(s *Shards) error { return s.checkNames(names) },
	}
}

// Func is a set that the leader asks for, at once and then with a pause of every in between. If f fails, or returns a set that
// cannot be, that is logged and the last set stays.
func Func(every time.Duration, f func(context.Context) ([]string, error)) Source {
	return Source{
		names: func(ctx context.Context, s *Shards) iter.Seq2[[]string, error] {
			return func(yield func([]string, error) bool) {
				for ctx.Err() == nil {
					names, err := f(ctx)
					if err != nil && ctx.Err() == nil {
						s.log.Error("shard: the set of shards cannot be had, the last one stays", "path", s.path, "error", err)
					}
					if err == nil && !yield(names, nil) {
						return
					}
					_ = session.Sleep(ctx, every) // the loop looks
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

// Node is the set that [Shards.SetNames] writes, in the node "shards" below the path: a list of names in JSON. While the node is
// missing or cannot be read, the last set stays. If there is none, no plan is made.
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
							s.log.Error("shard: the set of shards cannot be read, the last one stays", "path", s.names.Path(), "error", err)
						case view.Current && view.Version.Exists() && !yield(view.Value, nil):
							return
						}
					}
					_ = session.Sleep(ctx, tryAgain) // the loop looks
				}
			}
		},
		check: func(*Shards) error { return nil },
	}
}

// SetNames writes the set for [Node], whatever it was. Members that run follow it.
//
// Errors: a set that cannot be, at once; ErrUnknownOutcome if a reply was lost and another client has written since; otherwise what
// the server said.
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

// checkNames refuses a set that cannot be.
func (s *Shards) checkNames(names []string) error {
	if len(names) == 0 {
		return errors.New("no shards: want one name at least")
	}
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if err := session.ValidateName("shard", name); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("shard %q is there twice: want each name once", name)
		}
		seen[name] = true
	}
	if _, err := s.checkSize(newPlan(names, nil, nil)); err != nil {
		return fmt.Errorf("%d shards: %w", len(names), err)
	}
	return nil
}

// checkSize refuses a plan that one node cannot hold, and returns its size.
func (s *Shards) checkSize(p plan) (size int, err error) {
	data, err := planCodec.Encode(p)
	if err != nil {
		return 0, err
	}
	if err := (*client.Client)(s.client).CheckCreate(s.plan.Path(), data, 1); err != nil {
		return len(data), fmt.Errorf("the plan does not fit a node, want fewer shards or shorter names: %w", err)
	}
	return len(data), nil
}
