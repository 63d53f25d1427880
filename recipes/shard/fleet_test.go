package shard_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

const (
	path   = "/app/partitions"
	tick   = 2 * time.Second
	settle = time.Second
)

// fleet is a set of members in virtual time, and what they have served.
type fleet struct {
	*testing.T
	srv    *zktest.Server
	shards []string
	start  time.Time
	tracer *zkrecipes.Tracer // of all clients; may be nil
	diary  *shard.Tracer     // of all members; may be nil
	log    journal

	mu      sync.Mutex
	members map[string]*mate
	rec     map[string]*check.Recorder // by shard
	serving map[string]*mate           // the member whose function is running, by shard
	ops     map[string]*check.Op       // what is recorded of the current holds, by path
	taken   map[string]bool            // paths of holds that the server has ended on its own
	starts  int                        // of functions
	stops   int                        // functions that are running although their context has ended
	most    int                        // the most of them at a time
}

// journal collects the warnings and errors that the clients have logged.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// requireLogged requires a line of a member that contains all the words.
func (f *fleet) requireLogged(label string, words ...string) {
	f.Helper()
	synctest.Wait()
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	for line := range strings.Lines(f.log.text.String()) {
		missing := func(word string) bool { return !strings.Contains(line, word) }
		if strings.Contains(line, "client="+label+" ") && !slices.ContainsFunc(words, missing) {
			return
		}
	}
	require.Fail(f, "not logged", "%s: %q in\n%s", label, words, f.log.text.String())
}

// mate is one member.
type mate struct {
	*fleet
	id     string
	label  string // of its client; each life of a member has a new one
	client *conn.Client
	shards *shard.Shards
	stop   context.CancelFunc
	ended  chan struct{}
	err    error // valid once ended is closed
	// serve is called in the function, after the recording. It returns when its context ends.
	serve func(ctx context.Context, s *shard.Shard) error
	// linger is how long the function keeps running after its context has ended.
	linger time.Duration
}

// names returns n names of shards.
func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("s%03d", i)
	}
	return list
}

// inFleet runs f with n shards, in virtual time. Afterwards it checks that no shard had two holds at a time.
func inFleet(t *testing.T, n int, f func(f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fl := newFleet(t, n, zktest.Run(t, zktest.InMemory(), zktest.WithTickTime(tick), zktest.WithHistory(5000)))
		f(fl)
		fl.end()
		fl.judge()
	})
}

func newFleet(t *testing.T, n int, srv *zktest.Server) *fleet {
	t.Helper()
	return &fleet{
		T: t, srv: srv, shards: names(n), start: time.Now(),
		members: map[string]*mate{}, rec: map[string]*check.Recorder{}, serving: map[string]*mate{},
		ops: map[string]*check.Op{}, taken: map[string]bool{},
	}
}

// end ends all running members, and closes their clients.
func (f *fleet) end() {
	f.Helper()
	for _, m := range f.members {
		m.stop()
	}
	for _, m := range f.members {
		<-m.ended
		require.NoError(f, m.client.Close())
	}
}

// judge checks what each shard has seen.
func (f *fleet) judge() {
	f.Helper()
	for name, rec := range f.rec {
		holds, err := rec.Holds()
		require.NoError(f, err)
		require.NoError(f, check.Exclusion(holds, 1), name)
		// The server had ended the others on its own.
		holds = slices.DeleteFunc(holds, func(h check.Hold) bool { return h.To == h.From })
		slices.SortFunc(holds,
			func(a, b check.Hold) int { return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.From, b.From)) })
		for i := 1; i < len(holds); i++ {
			require.LessOrEqual(f, holds[i-1].From, holds[i].From, "%s: the tokens of later holds are larger", name)
		}
	}
}

// prepare returns a member with its own client that is not running yet.
func (f *fleet) prepare(id string, opts ...shard.Option) *mate {
	f.Helper()
	return f.prepareAs(id, id, opts...)
}

func (f *fleet) logger(label string) *slog.Logger {
	return slog.New(slog.NewTextHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelWarn})).With("client", label)
}

func (f *fleet) prepareAs(label, id string, opts ...shard.Option) *mate {
	f.Helper()
	options := []conn.Option{
		conn.WithDialer(f.srv.DialAs(label)), conn.WithIdentity(label),
		conn.WithSessionTimeout(bubble.Timeout), conn.WithLogger(f.logger(label)),
	}
	if f.tracer != nil {
		options = append(options, conn.WithTracer(f.tracer))
	}
	c, err := conn.New(f.srv.Addr(), options...) // does not wait for the server, which may be down
	require.NoError(f, err)
	f.Cleanup(func() { _ = c.Close() }) // never fails
	if f.diary != nil {
		opts = append(opts, shard.WithTracer(f.diary))
	}
	m := &mate{fleet: f, id: id, label: label, client: c, ended: make(chan struct{})}
	m.serve = func(ctx context.Context, _ *shard.Shard) error {
		<-ctx.Done()
		return nil
	}
	m.shards, err = shard.New(m.client, path,
		append([]shard.Option{shard.WithID(id), shard.WithSettle(settle, 10*settle)}, opts...)...)
	require.NoError(f, err)
	return m
}

// join starts a member.
func (f *fleet) join(id string, opts ...shard.Option) *mate {
	f.Helper()
	m := f.prepare(id, opts...)
	m.run(shard.List(f.shards...))
	return m
}

func (m *mate) run(from shard.Source) {
	ctx, stop := context.WithCancel(m.Context())
	m.stop = stop
	m.mu.Lock()
	m.members[m.label] = m
	m.mu.Unlock()
	go func() {
		defer close(m.ended)
		m.err = m.shards.Run(ctx, from, m.record)
	}()
	synctest.Wait() // it is a member now, unless its id is taken
}

// record is the function that serves a shard.
func (m *mate) record(ctx context.Context, s *shard.Shard) error {
	m.mu.Lock()
	rec := m.rec[s.Name]
	if rec == nil {
		rec = &check.Recorder{Now: func() int64 { return int64(time.Since(m.start)) }}
		m.rec[s.Name] = rec
	}
	m.serving[s.Name] = m
	m.starts++
	m.mu.Unlock()
	op := rec.Call(m.label, 1)
	m.mu.Lock()
	op.GrantedHold(s.Hold)
	m.ops[s.Path()] = op
	if m.taken[s.Path()] {
		op.Lost()
	}
	m.mu.Unlock()
	err := m.serve(ctx, s)
	if errors.Is(s.Err(), zkrecipes.ErrLost) {
		op.Lost()
	}
	m.mu.Lock()
	m.stops++
	m.most = max(m.most, m.stops)
	m.mu.Unlock()
	time.Sleep(m.linger)
	if s.Err() == nil {
		op.Released()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ops, s.Path())
	m.stops--
	if m.serving[s.Name] == m {
		delete(m.serving, s.Name)
	}
	return err
}

// isServed reports whether each shard is served.
func (f *fleet) isServed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.serving) == len(f.shards)
}

// load counts the shards that each member serves.
func (f *fleet) load() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := map[string]int{}
	for _, m := range f.serving {
		n[m.id]++
	}
	return n
}

// owners returns which member serves each shard.
func (f *fleet) owners() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	owners := map[string]string{}
	for name, m := range f.serving {
		owners[name] = m.id
	}
	return owners
}

func (f *fleet) started() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts
}

// pass lets time pass.
func (f *fleet) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// requireServed requires that each shard is served within d, by members with the given numbers of shards.
func (f *fleet) requireServed(within time.Duration, want map[string]int) {
	f.Helper()
	f.await(within, func() bool { return f.isServed() && maps.Equal(want, f.load()) },
		func() string { return fmt.Sprint(f.load()) })
}

// await waits for a condition, and checks it often.
func (f *fleet) await(within time.Duration, is func() bool, what func() string) {
	f.Helper()
	for end := time.Now().Add(within); ; f.pass(within / 1000) {
		synctest.Wait()
		if is() {
			return
		}
		require.True(f, time.Now().Before(end), "not within %v: %s", within, what())
	}
}

// crash cuts a member off for good, without notice. Its session expires.
func (f *fleet) crash(m *mate) { f.srv.Stall(zktest.Label(m.label), zktest.Both) }

// expire makes the server end the session of a client early, so that deadlines do not protect anything.
func (f *fleet) expire(session int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, node := range f.srv.Ephemerals(session) {
		f.taken[node] = true
		if op := f.ops[node]; op != nil {
			op.Lost()
		}
	}
	f.srv.Expire(session)
}

// depose deletes the node of the leader.
func (f *fleet) depose() {
	names := f.srv.Children(path + "/election")
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
	if len(names) > 0 {
		_ = f.srv.Delete(path + "/election/" + names[0]) // it may be gone
	}
}

// planned returns the plan in the node.
func (f *fleet) planned() string {
	n, _ := f.srv.Node(path + "/plan")
	return string(n.Data)
}

// writers returns the clients that have changed the plan.
func (f *fleet) writers() (list []string) {
	for _, txn := range f.srv.History() {
		for _, c := range txn.Changes {
			if c.Path == path+"/plan" {
				list = append(list, txn.Client)
			}
		}
	}
	return list
}
