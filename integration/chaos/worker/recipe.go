package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
)

// An ask is one way to acquire.
type ask struct {
	weight    int
	read      bool
	exclusive bool
	acquire   acquire
}

type acquire func(context.Context) (*zkrecipes.Hold, error)

// newRecipe returns a function that draws the next ask of the recipe.
func newRecipe(c *conn.Client, cfg config) (func(*rand.Rand) ask, error) {
	switch cfg.recipe {
	case "election":
		options := append(with(cfg.kazoo, election.WithKazoo()),
			with(cfg.eager, election.WithHandOver(zkrecipes.HandOverEager))...)
		e, err := election.New(c, cfg.path, options...)
		return exclusive(func(ctx context.Context) (*zkrecipes.Hold, error) {
			t, err := e.Campaign(ctx)
			if err != nil {
				return nil, err
			}
			return t.Hold, nil
		}), err
	case "mutex":
		options := append(with(cfg.kazoo, mutex.WithKazoo()), with(cfg.eager, mutex.WithHandOver(zkrecipes.HandOverEager))...)
		m, err := mutex.New(c, cfg.path, options...)
		return exclusive(m.Lock), err
	case "try":
		m, err := mutex.New(c, cfg.path, with(cfg.kazoo, mutex.WithKazoo())...)
		return exclusive(m.TryLock), err
	case "rwlock":
		l, err := rwlock.New(c, cfg.path, with(cfg.kazoo, rwlock.WithKazoo())...)
		return func(rng *rand.Rand) ask {
			if rng.Float64() < cfg.writes {
				return ask{weight: 1, exclusive: true, acquire: l.Lock}
			}
			return ask{weight: 1, read: true, acquire: l.RLock}
		}, err
	case "semaphore":
		s, err := semaphore.New(c, cfg.path, cfg.limit, with(cfg.kazoo, semaphore.WithKazoo())...)
		return func(rng *rand.Rand) ask {
			n := 1 + rng.IntN(cfg.limit)
			return ask{weight: n, exclusive: cfg.limit == 1, acquire: func(ctx context.Context) (*zkrecipes.Hold, error) {
				return s.Acquire(ctx, n)
			}}
		}, err
	default:
		return nil, fmt.Errorf("unknown recipe %q", cfg.recipe)
	}
}

// with returns the option, if wanted.
func with[O any](wanted bool, option O) []O {
	if wanted {
		return []O{option}
	}
	return nil
}

func exclusive(f acquire) func(*rand.Rand) ask {
	return func(*rand.Rand) ask { return ask{weight: 1, exclusive: true, acquire: f} }
}
