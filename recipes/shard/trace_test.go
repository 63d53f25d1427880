package shard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// diary is what a tracer of all members has received.
type diary struct {
	mu      sync.Mutex
	changes []shard.Change
	plans   []shard.Plan
}

func (d *diary) tracer() *shard.Tracer {
	return &shard.Tracer{
		Change: func(c shard.Change) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.changes = append(d.changes, c)
		},
		Plan: func(p shard.Plan) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.plans = append(d.plans, p)
		},
	}
}

// take returns the changes of a member since the last call, in short form.
func (d *diary) take(member string) (said []string) {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	var rest []shard.Change
	for _, c := range d.changes {
		if c.Member != member {
			rest = append(rest, c)
			continue
		}
		why := ""
		var lost *zkrecipes.LostError
		switch {
		case errors.As(c.Err, &lost):
			why = " " + lost.Reason.String()
		case c.Err != nil:
			why = " " + c.Err.Error()
		}
		said = append(said, fmt.Sprintf("%s %s>%s %v%s", c.Shard, c.From, c.To, c.Lasted, why))
	}
	d.changes = rest
	return said
}

func TestTracer_Shards(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		var d diary
		f.diary = d.tracer()
		a := f.join("a", shard.WithTracerName("parts"))
		f.requireServed(2*settle, map[string]int{"a": 1})
		require.Equal(f, []string{"s000 none>waiting 0s", "s000 waiting>owned 0s"}, d.take("a"))
		d.mu.Lock()
		require.Equal(f, []shard.Plan{{Name: "parts", Path: path, Shards: 1, Members: 1}}, d.plans)
		d.mu.Unlock()

		b := f.join("b")
		f.pass(10 * time.Second)
		a.linger = 300 * time.Millisecond
		go func() { _ = a.shards.Leave(f.Context()) }()
		f.requireServed(2*settle, map[string]int{"b": 1})
		<-a.ended
		require.Equal(f, []string{"s000 owned>none 10.3s " + shard.ErrMoved.Error()}, d.take("a"))
		require.Equal(f, []string{"s000 none>waiting 0s", "s000 waiting>owned 300ms"}, d.take("b"),
			"it waits for a, which works meanwhile")
		d.mu.Lock()
		require.Equal(f, 1, d.plans[len(d.plans)-1].Moves)
		d.mu.Unlock()

		f.pass(10 * time.Second)
		f.expire(f.srv.SessionOf("b"))
		f.requireServed(bubble.Timeout, map[string]int{"b": 1})
		said := d.take("b")
		require.GreaterOrEqual(f, len(said), 2, said)
		require.Regexp(f, `^s000 owned>waiting 10s (expired|node-deleted)$`, said[0])
		require.Regexp(f, `^s000 waiting>owned `, said[len(said)-1])
		f.pass(10 * time.Second)
		b.stop()
		<-b.ended
		require.Equal(f, []string{"s000 owned>none 10s context canceled"}, d.take("b"))
	})
}

// The shard waits for a member that does not give it back.
func TestTracer_FailingShard(t *testing.T) {
	inFleet(t, 1, func(f *fleet) {
		var d diary
		f.diary = d.tracer()
		a := f.prepare("a", shard.WithGiveUp(1))
		a.serve = func(context.Context, *shard.Shard) error { return errors.New("no disk") }
		a.run(shard.List(f.shards...))
		f.await(time.Minute, func() bool { return len(f.srv.Children(path+"/own")) == 1 }, f.planned)
		f.pass(time.Second)
		said := d.take("a")
		require.Equal(f, []string{
			"s000 none>waiting 0s", "s000 waiting>owned 0s",
			"s000 owned>waiting 0s failed too often: no disk",
		}, said[:3])
	})
}

// An observer sees what members announce about themselves.
func TestOwners_Members(t *testing.T) {
	inFleet(t, 4, func(f *fleet) {
		start := time.Now()
		f.join("a", shard.WithWeight(3))
		f.pass(time.Second)
		b := f.join("b")
		f.requireServed(12*settle, map[string]int{"a": 3, "b": 1})
		view, err := b.shards.Owners(f.Context())
		require.NoError(f, err)
		require.Len(f, view.Members, 2)
		require.Equal(f, shard.Member{ID: "a", Weight: 3, Since: view.Members[0].Since}, view.Members[0])
		require.Equal(f, shard.Member{ID: "b", Weight: 1, Since: view.Members[1].Since}, view.Members[1])
		require.WithinDuration(f, start, view.Members[0].Since, time.Second)
		_, err = f.srv.Create(path+"/members/by-hand", []byte("?"), zktest.Persistent)
		require.NoError(f, err)
		view, err = b.shards.Owners(f.Context())
		require.NoError(f, err)
		require.Equal(f, 1, view.Members[2].Weight)
	})
}

// The locks of the shards and the election of the leader have the name too.
func TestWithTracerName(t *testing.T) {
	for _, name := range []string{"", "partitions"} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, 2, func(f *fleet) {
				var mu sync.Mutex
				granted := map[string]int{}
				f.tracer = &zkrecipes.Tracer{AcquireEnd: func(_ context.Context, a zkrecipes.AcquireEnd) {
					mu.Lock()
					defer mu.Unlock()
					if a.Err == nil {
						granted[a.Recipe+" "+a.Name]++
					}
				}}
				var opts []shard.Option
				if name != "" {
					opts = append(opts, shard.WithTracerName(name))
				}
				f.join("a", opts...)
				f.requireServed(2*settle, map[string]int{"a": 2})
				mu.Lock()
				defer mu.Unlock()
				require.Equal(f, map[string]int{"election " + name: 1, "mutex " + name: 2}, granted)
			})
		})
	}
}
