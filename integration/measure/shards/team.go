package shards

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	_ "embed"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
)

// team is a set of members that divide shards among themselves in one way.
type team interface {
	// join starts a member.
	join(ctx context.Context, id string) error
	// leave makes a member leave for good, and returns when it has left.
	leave(ctx context.Context, id string) error
	// stop stops a member that will return.
	stop(ctx context.Context, id string) error
	close()
}

// member is one member that runs in this process.
type member struct {
	client *conn.Client
	leave  func(context.Context) error // hands over
	cancel context.CancelFunc
	ended  chan error
}

// crew is the members of a team that run in this process.
type crew struct {
	server  *zkserver.Server
	tally   *tally
	members map[string]*member
}

// add connects a member, and runs it.
func (c *crew) add(ctx context.Context, id string, run func(ctx context.Context, m *member) error) error {
	m := &member{ended: make(chan error, 1)}
	var err error
	m.client, err = conn.Dial(ctx, c.server.Addr(), conn.WithSessionTimeout(timeout), conn.WithIdentity(id),
		conn.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	ctx, m.cancel = context.WithCancel(ctx)
	c.members[id] = m
	go func() { m.ended <- run(ctx, m) }()
	return nil
}

func (c *crew) stop(_ context.Context, id string) error {
	m := c.members[id]
	delete(c.members, id)
	m.cancel()
	err := <-m.ended
	_ = m.client.Close() // it never fails
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (c *crew) close() {
	for id := range c.members {
		_ = c.stop(context.Background(), id) // it is over
	}
}

// ours is a team of recipes/shard.
type ours struct {
	crew
	path  string
	grace time.Duration
}

func newOurs(server *zkserver.Server, t *tally, path string, grace time.Duration) *ours {
	return &ours{crew{server, t, map[string]*member{}}, path, grace}
}

func (o *ours) join(ctx context.Context, id string) error {
	return o.add(ctx, id, func(ctx context.Context, m *member) error {
		s, err := shard.New(m.client, o.path, shard.WithID(id), shard.WithSettle(settle, 10*settle),
			shard.WithReturnGrace(o.grace))
		if err != nil {
			return err
		}
		o.tally.mu.Lock()
		m.leave = s.Leave
		o.tally.mu.Unlock()
		return s.Run(ctx, shard.List(o.tally.shards...), func(ctx context.Context, s *shard.Shard) error {
			o.tally.start(id, s.Name)
			<-ctx.Done()
			o.tally.stop(id, s.Name)
			return nil
		})
	})
}

func (o *ours) leave(ctx context.Context, id string) error {
	o.tally.mu.Lock()
	leave := o.members[id].leave
	o.tally.mu.Unlock()
	return errors.Join(leave(ctx), o.stop(ctx, id))
}

// hashing is a team that has a group, and no locks. The owner of a shard is the member with the largest hash.
type hashing struct{ crew }

func (h *hashing) join(ctx context.Context, id string) error {
	return h.add(ctx, id, func(ctx context.Context, m *member) error {
		g, err := group.New(m.client, "/hashing")
		if err != nil {
			return err
		}
		kept, err := g.Join(ctx, id, nil)
		if err != nil {
			return err
		}
		mine := map[string]bool{}
		adopt := func(members []group.Member) {
			for _, name := range h.tally.shards {
				if is := owner(members, name) == id; is != mine[name] {
					if mine[name] = is; is {
						h.tally.start(id, name)
					} else {
						h.tally.stop(id, name)
					}
				}
			}
		}
		for view, err := range g.Watch(ctx, group.WithSettle(settle, 10*settle)) {
			if err != nil {
				return err
			}
			if view.Current {
				adopt(view.Members)
			}
		}
		adopt(nil)
		return kept.Close(context.WithoutCancel(ctx))
	})
}

func (h *hashing) leave(ctx context.Context, id string) error { return h.stop(ctx, id) }

func owner(members []group.Member, name string) (id string) {
	var largest uint64
	for _, m := range members {
		sum := fnv.New64a()
		_, _ = io.WriteString(sum, name+"/"+m.ID) // never fails
		x := sum.Sum64() * 0x9e3779b97f4a7c15
		if x ^= x >> 32; x > largest {
			id, largest = m.ID, x
		}
	}
	return id
}

//go:embed testdata/partitioner.py
var program string

// kazoo is a team of SetPartitioners in one process, each with its own client.
type kazoo struct {
	process *exec.Cmd
	in      io.WriteCloser
	mu      sync.Mutex
	gone    map[string]chan struct{}
}

func newKazoo(server *zkserver.Server, t *tally) (*kazoo, error) {
	k := &kazoo{gone: map[string]chan struct{}{}}
	k.process = exec.Command("/usr/bin/python3", "-c", program, server.Addr(),
		fmt.Sprint(len(t.shards)), fmt.Sprint(settle.Seconds()),
		fmt.Sprint(timeout.Seconds()))
	k.process.Stderr = os.Stderr
	var err error
	if k.in, err = k.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := k.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := k.process.Start(); err != nil {
		return nil, fmt.Errorf("start kazoo, from apt-get install python3-kazoo: %w", err)
	}
	go k.follow(out, t)
	return k, nil
}

// follow reads what the members do: "start member shard", "stop member shard", "gone member".
func (k *kazoo) follow(out io.Reader, t *tally) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		id, name, _ := strings.Cut(rest, " ")
		switch word {
		case "start":
			t.start(id, name)
		case "stop":
			t.stop(id, name)
		case "gone":
			k.mu.Lock()
			close(k.gone[id])
			k.mu.Unlock()
		}
	}
}

func (k *kazoo) join(_ context.Context, id string) error {
	k.mu.Lock()
	k.gone[id] = make(chan struct{})
	k.mu.Unlock()
	_, err := fmt.Fprintln(k.in, "join", id)
	return err
}

func (k *kazoo) leave(ctx context.Context, id string) error {
	k.mu.Lock()
	gone := k.gone[id]
	k.mu.Unlock()
	if _, err := fmt.Fprintln(k.in, "leave", id); err != nil {
		return err
	}
	select {
	case <-gone:
		return nil
	case <-time.After(time.Minute):
		return cmp.Or(ctx.Err(), errors.New("a member of kazoo does not leave"))
	}
}

func (k *kazoo) stop(ctx context.Context, id string) error { return k.leave(ctx, id) }

func (k *kazoo) close() {
	_ = k.in.Close() // the process ends itself
	_ = k.process.Wait()
}
