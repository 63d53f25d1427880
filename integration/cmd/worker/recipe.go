package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

// An ask is one way to acquire.
type ask struct {
	weight    int
	read      bool
	exclusive bool
	acquire   func(context.Context) (*zkrecipes.Hold, error)
}

// newRecipe returns what draws the next ask of the recipe.
func newRecipe(c *conn.Client, cfg config) (func(*rand.Rand) ask, error) {
	switch cfg.recipe {
	case "election":
		e, err := election.New(c, cfg.path)
		return always(func(ctx context.Context) (*zkrecipes.Hold, error) {
			t, err := e.Campaign(ctx)
			if err != nil {
				return nil, err
			}
			return t.Hold, nil
		}), err
	default:
		return nil, fmt.Errorf("unknown recipe %q", cfg.recipe)
	}
}

func always(acquire func(context.Context) (*zkrecipes.Hold, error)) func(*rand.Rand) ask {
	return func(*rand.Rand) ask { return ask{weight: 1, exclusive: true, acquire: acquire} }
}
