package soak

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/barrier"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/recipes/value"
)

// errWrong reports an impossible answer from a recipe.
var errWrong = errors.New("wrong answer")

// A turn is one operation of a recipe, from beginning to end.
type turn func(context.Context) error

// turns starts the turns of the recipes that are not locks. Number distinguishes clients.
var turns = map[string]func(c *conn.Client, path string, number int) (turn, error){
	"value": func(c *conn.Client, path string, _ int) (turn, error) {
		v, err := value.New(c, path, value.AtomicLong())
		return growing(func(ctx context.Context) (int64, error) {
			sum, _, err := v.Update(ctx, func(old int64) (int64, error) { return old + 1, nil })
			return sum, err
		}), err
	},
	"counter": func(c *conn.Client, path string, _ int) (turn, error) {
		n, err := value.NewCounter(c, path, value.AtomicLong())
		return growing(func(ctx context.Context) (int64, error) { return n.Add(ctx, 1) }), err
	},
	"double": func(c *conn.Client, path string, _ int) (turn, error) {
		d, err := barrier.NewDouble(c, path, 2)
		return growing(func(ctx context.Context) (int64, error) {
			round, err := d.Enter(ctx)
			if err != nil {
				return 0, err
			}
			return round.Number(), round.Leave(ctx)
		}), err
	},
	"node": func(c *conn.Client, path string, number int) (turn, error) {
		return func(ctx context.Context) error {
			n, err := node.New(c, fmt.Sprint(path, "-", number), []byte("first"))
			if err != nil {
				return err
			}
			err = n.Ready(ctx)
			if err == nil {
				err = n.Set(ctx, []byte("second"))
			}
			return errors.Join(err, n.Close(ctx))
		}, nil
	},
	"group": func(c *conn.Client, path string, number int) (turn, error) {
		g, err := group.New(c, path)
		return func(ctx context.Context) error {
			m, err := g.Join(ctx, fmt.Sprint("member-", number), []byte("data"), group.WithWait())
			if err != nil {
				return err
			}
			_, err = g.Members(ctx)
			return errors.Join(err, m.Close(ctx))
		}, err
	},
	"cache": func(c *conn.Client, path string, number int) (turn, error) {
		tree, err := cache.Tree(c, path)
		child := fmt.Sprint(path, "/", number)
		return func(ctx context.Context) error {
			if err := c.CreateAll(ctx, child, nil); err != nil {
				return err
			}
			stat, err := c.Set(ctx, child, []byte("data"), -1)
			if err != nil {
				return err
			}
			if err := tree.Sync(ctx); err != nil {
				return err
			}
			if e, found := tree.Get(child); !found || e.Mzxid < stat.Mzxid {
				return fmt.Errorf("%w: %s as of %#x after a sync, written by %#x", errWrong, child, e.Mzxid, stat.Mzxid)
			}
			return nil
		}, err
	},
	"discovery": func(c *conn.Client, path string, number int) (turn, error) {
		d, err := discovery.New(c, path)
		return func(ctx context.Context) error {
			r, err := d.Register(ctx, discovery.Instance{Service: "orders", Address: "10.0.0.7", Port: 8080 + number})
			if err != nil {
				return err
			}
			_, err = d.Instances(ctx, "orders")
			return errors.Join(err, r.Close(ctx))
		}, err
	},
}

// growing is a turn whose number increases each time.
func growing(next func(context.Context) (int64, error)) turn {
	newest := int64(0)
	return func(ctx context.Context) error {
		n, err := next(ctx)
		if err == nil && n <= newest {
			return fmt.Errorf("%w: %d after %d", errWrong, n, newest)
		}
		newest = max(newest, n)
		return err
	}
}

// others starts two clients of each recipe that is not a lock, and of shards.
func (r *run) others(ctx context.Context) error {
	for name, begin := range turns {
		for number := range 2 {
			t, err := begin(r.clients[number+1], Root+"/others/"+name, number) // one of them is behind the proxies
			if err != nil {
				return err
			}
			r.workers.Go(func() { r.take(ctx, name, t) })
		}
	}
	for number := range 2 {
		s, err := shard.New(r.clients[number+1], Root+"/others/shards", shard.WithID(fmt.Sprint("worker-", number)))
		if err != nil {
			return err
		}
		r.workers.Go(func() { r.take(ctx, "shards", r.shards(s)) })
	}
	return nil
}

// take runs one turn after another.
func (r *run) take(ctx context.Context, name string, t turn) {
	for ctx.Err() == nil {
		err := t(ctx)
		switch {
		case errors.Is(err, errWrong):
			r.Log("%s: %v", name, err)
			r.ledger.count(func(t *Tally) { t.Wrong++ })
		case err != nil:
			r.failed(ctx)
		default:
			r.ledger.count(func(t *Tally) { t.Others++ })
		}
		wait(ctx, r.Pause)
	}
}

// shards is a turn of a member that serves shards for a minute. Each shard has its own register.
func (r *run) shards(s *shard.Shards) turn {
	return func(ctx context.Context) error {
		minute, stop := context.WithTimeout(ctx, 20*r.Session)
		defer stop()
		err := s.Run(minute, shard.List("a", "b", "c", "d"), func(ctx context.Context, s *shard.Shard) error {
			for ctx.Err() == nil {
				r.section(Root+"/shard-"+s.Name+"/fenced", s.Hold)
				wait(ctx, r.Pause)
			}
			return nil
		})
		if minute.Err() != nil {
			return nil
		}
		return err
	}
}
