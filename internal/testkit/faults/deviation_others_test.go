package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/barrier"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// writers are the recipes that acquire nothing, and the calls of the client that find their nodes. Each uses a path of
// its own, and checks what it got.
var writers = map[string]func(ctx context.Context, c *conn.Client) error{
	"value": func(ctx context.Context, c *conn.Client) error {
		v, err := value.New(c, "/app/value", value.Text())
		if err != nil {
			return err
		}
		if _, _, err = v.Update(ctx, func(old string) (string, error) { return old + "x", nil }); err != nil {
			return err
		}
		text, _, err := v.Get(ctx)
		return errors.Join(err, expect(text[len(text)-1:], "x"))
	},
	"counter": func(ctx context.Context, c *conn.Client) error {
		n, err := value.NewCounter(c, "/app/counter", value.AtomicLong())
		if err != nil {
			return err
		}
		first, err := n.Add(ctx, 1)
		if err != nil {
			return err
		}
		second, err := n.Add(ctx, 2)
		return errors.Join(err, expect(second-first, 2), n.Close(ctx))
	},
	"node": func(ctx context.Context, c *conn.Client) error {
		n, err := node.New(c, "/app/node", []byte("1"))
		if err != nil {
			return err
		}
		if err := n.Ready(ctx); err != nil {
			return errors.Join(err, n.Close(ctx))
		}
		before := n.State().Czxid
		time.Sleep(3 * bubble.Timeout) // until it has been read again
		return errors.Join(n.Set(ctx, []byte("2")), expect(n.State().Czxid, before), n.Close(ctx))
	},
	"group": func(ctx context.Context, c *conn.Client) error {
		g, err := group.New(c, "/app/group")
		if err != nil {
			return err
		}
		m, err := g.Join(ctx, "w1", []byte("1"))
		if err != nil {
			return err
		}
		view, err := g.Members(ctx)
		return errors.Join(err, expect(len(view.Members), 1), m.Close(ctx))
	},
	"cache": func(ctx context.Context, c *conn.Client) error {
		all, err := cache.Tree(c, "/app")
		if err != nil {
			return err
		}
		return errors.Join(all.Ready(ctx), all.Sync(ctx), all.Close(ctx))
	},
	"barrier": func(ctx context.Context, c *conn.Client) error {
		b, err := barrier.New(c, "/app/barrier")
		if err != nil {
			return err
		}
		return errors.Join(b.Set(ctx), b.Remove(ctx), b.Wait(ctx))
	},
	"double barrier": func(ctx context.Context, c *conn.Client) error {
		d, err := barrier.NewDouble(c, "/app/double", 1)
		if err != nil {
			return err
		}
		round, err := d.Enter(ctx)
		if err != nil {
			return err
		}
		return round.Leave(ctx)
	},
	"countdown": func(ctx context.Context, c *conn.Client) error {
		l, err := barrier.NewLatch(c, "/app/latch", 1)
		if err != nil {
			return err
		}
		left, err := l.CountDown(ctx, "")
		if err != nil {
			return err
		}
		return errors.Join(expect(left, 0), l.Wait(ctx))
	},
	"shards": func(ctx context.Context, c *conn.Client) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		served := errors.New("served")
		err := shard.Run(ctx, c, "/app/shards", shard.List("a"), func(ctx context.Context, s *shard.Shard) error {
			cancel(served)
			return s.Err()
		})
		if errors.Is(err, served) {
			return nil
		}
		return err
	},
	"protected": func(ctx context.Context, c *conn.Client) error {
		if err := c.CreateAll(ctx, "/app/protected", nil); err != nil {
			return err
		}
		path, err := c.CreateProtected(ctx, "/app/protected/w-", nil, conn.EphemeralSequential)
		if err != nil {
			return err
		}
		return c.Delete(ctx, path, -1)
	},
}

func expect[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("got %v: want %v", got, want)
	}
	return nil
}

// The recipes that acquire nothing work under each deviation, too, or refuse with an error that explains why.
func TestDeviations_EveryWriterWorksOrRefuses(t *testing.T) {
	for _, d := range deviations {
		for name, use := range writers {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.Run(t, zktest.InMemory(), d.option)
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
					defer cancel()
					err := use(ctx, bubble.Dial(t, srv, "a"))
					if slices.Contains(d.refuse, name) {
						require.ErrorIs(t, err, d.refusal)
						return
					}
					require.NoError(t, err)
				})
			})
		}
	}
}
