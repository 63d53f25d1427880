package curator_test

import (
	"context"
	"testing"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
)

// A kind is a recipe that Curator and we have in common.
type kind struct {
	name     string // on the peer's line
	worker   string // on the command line of cmd/worker
	arg      string // the node of the limit; "-" for none
	limit    int
	sections int // of each of the four who contend
	open     func(t *testing.T, c *conn.Client, path, arg string) side
}

// A side is our half of a kind.
type side struct {
	take func(ctx context.Context) (*zkrecipes.Hold, error)
	who  func(ctx context.Context) ([]zkrecipes.Participant, error)
}

var kinds = []kind{
	{"latch", "election", "-", 1, 400, elections(election.Latch)},
	{"selector", "-", "-", 1, 300, elections(election.Selector)},
}

func elections(layout election.Layout) func(*testing.T, *conn.Client, string, string) side {
	return func(t *testing.T, c *conn.Client, path, _ string) side {
		t.Helper()
		e, err := election.New(c, path, election.WithLayout(layout))
		must(t, err)
		return side{
			func(ctx context.Context) (*zkrecipes.Hold, error) {
				term, err := e.Campaign(ctx)
				if err != nil {
					return nil, err
				}
				return term.Hold, nil
			},
			e.Candidates,
		}
	}
}
