// Package following follows a configuration in ZooKeeper, and changes it.
package following

import (
	"context"
	"log/slog"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/value"
)

// Config is the configuration, as JSON in one node.
type Config struct {
	Limit int
}

// Open returns the configuration at a path.
func Open(client *conn.Client) (*value.Value[Config], error) {
	return value.New(client, "/app/config", value.JSON[Config]())
}

// Follow applies the configuration now and after each change, until ctx is done.
func Follow(ctx context.Context, v *value.Value[Config], apply func(Config)) error {
	for view, err := range v.Watch(ctx) {
		switch {
		case err != nil:
			return err
		case !view.Current:
			slog.Warn("configuration may be outdated", "since", view.AsOf) // keep the last one
		case view.Err != nil:
			slog.Error("configuration does not decode", "err", view.Err) // keep the last one
		case view.Version.Exists():
			apply(view.Value)
		}
	}
	return nil
}

// Raise changes the configuration. The function is called again if another process changed it first.
func Raise(ctx context.Context, v *value.Value[Config]) error {
	_, _, err := v.Update(ctx, func(c Config) (Config, error) {
		c.Limit++
		return c, nil
	})
	return err
}

// Edit changes the configuration while the caller holds a lock. If the lock was lost, Edit changes nothing.
func Edit(ctx context.Context, v *value.Value[Config], h *zkrecipes.Hold, edit func(Config) Config) error {
	c, _, err := v.Get(ctx)
	if err != nil {
		return err
	}
	_, err = v.SetHeld(ctx, h, edit(c)) // zkrecipes.ErrFenced: no longer held, nothing was written
	return err
}

// Tree follows many nodes. It returns when it has read all of them.
func Tree(ctx context.Context, client *conn.Client) (*cache.Cache, error) {
	all, err := cache.Tree(client, "/app/settings")
	if err != nil {
		return nil, err
	}
	if err := all.Ready(ctx); err != nil {
		_ = all.Close(ctx) // only the error of Ready matters
		return nil, err
	}
	return all, nil
}
