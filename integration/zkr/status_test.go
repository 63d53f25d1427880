package zkr

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/integration/kit/browser"
	"github.com/zkrecipes/zkrecipes/integration/kit/peer"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/integration/others/curator"
	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// contest is a queue.
type contest struct {
	path         string
	kinds        [2]string // of the two workers
	arg          string
	kazoo        bool
	kind, layout string // as zkr should show them
}

// contests are the queues. In each of them two workers alternate, from two processes.
var contests = []contest{
	{"/status/curator/mutex", [2]string{"mutex", "mutex"}, "-", false, "mutex", "curator"},
	{"/status/curator/rwlock", [2]string{"write", "read"}, "-", false, "read-write lock", "curator"},
	{"/status/curator/semaphore", [2]string{"semaphore", "semaphore"}, "/limits/semaphore", false, "semaphore", "curator"},
	{"/status/curator/latch", [2]string{"latch", "latch"}, "-", false, "election", "curator"},
	{"/status/kazoo/mutex", [2]string{"mutex", "mutex"}, "1", true, "mutex", "kazoo"},
	{"/status/kazoo/semaphore", [2]string{"semaphore", "semaphore"}, "1", true, "semaphore", "kazoo"},
}

// section is how long a resource takes to answer. Workers query it one to four times while they hold.
const section = 150 * time.Millisecond

// TestStatus_WhileCuratorAndKazooContend: each view of zkr status shows the holders that the workers reported.
func TestStatus_WhileCuratorAndKazooContend(t *testing.T) {
	address := zkserver.Start(t).Addr()
	zkr := program(t)
	w := &workers{turns: map[string][]turn{}, at: map[string]int64{}, names: map[string]string{}}
	w.start(t, address)
	sure := map[string]int{} // views with a single holder from beginning to end
	views := 0
	for range 4 {
		var batch []*view
		for range 25 {
			batch = append(batch, look(t, zkr, address))
		}
		w.toldUntil(t, batch[len(batch)-1].until)
		for _, v := range batch {
			w.judge(t, v, sure)
		}
		views += len(batch)
		if !slices.ContainsFunc(contests, func(c contest) bool { return sure[c.path] < 5 }) {
			break
		}
	}
	t.Logf("%d views; those with one holder from the beginning to the end: %v", views, sure)
	for _, c := range contests {
		assert.NotZero(t, sure[c.path], "%s: no view says anything", c.path)
	}
}

// view is the part of the output of zkr status that this test checks.
type view struct {
	Queues       []queue
	since, until int64 // when zkr read it, by the clock of the journal
}

type queue struct {
	Path, Kind, Layout, Verdict string
	Holders, Waiters            []shown
	AsOf                        time.Time `json:"as_of"`
}

type shown struct{ ID, Session, Library, Node string }

// stamped is an output with the time at which it began.
type stamped struct {
	text []byte
	at   int64
}

func (s *stamped) Write(text []byte) (int, error) {
	if s.at == 0 {
		s.at = journal.Now()
	}
	s.text = append(s.text, text...)
	return len(text), nil
}

// look runs zkr status.
func look(t *testing.T, zkr func(context.Context, ...string) *exec.Cmd, address string) *view {
	t.Helper()
	var out stamped
	cmd := zkr(t.Context(), "status", "-r", "-o", "json", "--servers", address, "/status")
	cmd.Stdout = &out
	require.NoError(t, cmd.Run())
	v := &view{since: out.at, until: out.at}
	require.NoError(t, json.Unmarshal(out.text, v))
	for _, q := range v.Queues {
		v.since = min(v.since, journal.At(q.AsOf))
	}
	return v
}

// turn is one acquisition by a worker, as reported by the worker. A time that has not come is 0.
type turn struct{ called, granted, released, over int64 }

// overlaps reports whether the worker may have been in the queue at some moment of the view.
func (u turn) overlaps(v *view) bool {
	return u.called <= v.until && (u.over == 0 || u.over >= v.since)
}

// covers reports whether the worker held from the beginning of the view to its end.
func (u turn) covers(v *view) bool {
	return u.granted != 0 && u.granted <= v.since && (u.released == 0 || u.released >= v.until)
}

// workers are those of Curator and kazoo, with their reports.
type workers struct {
	mu    sync.Mutex
	turns map[string][]turn // by name
	at    map[string]int64  // of the last event, by name
	names map[string]string // by path and session for Curator, by path and ID for kazoo
}

func (w *workers) event(e check.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	turns := w.turns[e.Client]
	w.at[e.Client] = e.At
	switch last := len(turns) - 1; e.Kind {
	case check.Called:
		if last >= 0 {
			turns[last].over = e.At // its node is gone
		}
		w.turns[e.Client] = append(turns, turn{called: e.At})
	case check.Granted:
		turns[last].granted = e.At
	case check.Released:
		turns[last].released = e.At
	default: // no worker is killed
	}
}

// toldUntil waits until all workers have reported what they did up to a moment: each reports one event after another.
func (w *workers) toldUntil(t *testing.T, moment int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, name := range w.names {
			if w.at[name] <= moment {
				return false
			}
		}
		return true
	}, browser.Patience, 10*time.Millisecond)
}

// start starts two processes of each library, which contend for the rest of the test.
func (w *workers) start(t *testing.T, address string) {
	t.Helper()
	python := "/usr/bin/python3" // Debian's python finds Debian's modules
	if err := exec.Command(python, "-c", "import kazoo").Run(); err != nil {
		need.Missing(t, "no kazoo: apt-get install python3-kazoo")
	}
	const session = 10 * time.Second
	curator.Compile(t, directory)
	resource := slowResource(t)
	var starting sync.WaitGroup
	var peers [4]*peer.Peer
	for i := range 2 {
		starting.Go(func() { peers[i] = curator.Start(t, directory, address, session, w.event) })
		starting.Go(func() {
			kazoo := exec.Command(python, "../others/foreign/testdata/kazoo_peer.py", address,
				fmt.Sprint(session.Milliseconds()))
			kazoo.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			peers[2+i] = peer.Start(t, kazoo, w.event)
		})
	}
	starting.Wait()
	_, err := peers[0].Ask(t.Context(), "count", "/limits/semaphore", 1)
	require.NoError(t, err)
	for i := range 2 {
		id, err := peers[i].Ask(t.Context(), "session")
		require.NoError(t, err)
		for _, c := range contests {
			p, name, key := peers[i], workerName(c.path, i), c.path+" 0x"+id
			if c.kazoo {
				p, key = peers[2+i], c.path+" "+name
			}
			w.mu.Lock()
			w.names[key] = name
			w.mu.Unlock()
			p.Loop(t, name, c.kinds[i], c.path, c.arg, 1<<30, resource)
		}
	}
}

// slowResource starts a resource server that takes its time, so that the workers hold for a while. It returns its
// socket.
func slowResource(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				for lines := bufio.NewScanner(c); lines.Scan(); {
					time.Sleep(section)
					_, _ = fmt.Fprintln(c, `{"version":1}`) // the worker may be gone
				}
			}()
		}
	}()
	return socket
}

// judge compares a view with the reports of the workers.
func (w *workers) judge(t *testing.T, v *view, sure map[string]int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	name := func(q queue, s shown) string {
		return cmp.Or(w.names[q.Path+" "+s.Session], w.names[q.Path+" "+strings.Trim(strings.TrimPrefix(s.ID, "b"), "'")])
	}
	for _, c := range contests {
		i := slices.IndexFunc(v.Queues, func(q queue) bool { return q.Path == c.path })
		q := queue{Path: c.path}
		if i >= 0 {
			q = v.Queues[i]
			require.Equal(t, []string{c.kind, c.layout, "held"}, []string{q.Kind, q.Layout, q.Verdict}, "%+v", q)
		}
		var holders, all []string
		for _, s := range q.Holders {
			holders = append(holders, name(q, s))
		}
		for _, s := range slices.Concat(q.Holders, q.Waiters) {
			all = append(all, name(q, s))
		}
		for _, one := range all {
			require.True(t, slices.ContainsFunc(w.turns[one], func(u turn) bool { return u.overlaps(v) }),
				"%s is not in the queue by its own words, %v, from %d to %d: %+v", one, w.turns[one], v.since, v.until, q)
		}
		require.LessOrEqual(t, len(holders), 1, "%+v", q)
		for i := range c.kinds {
			one := workerName(c.path, i)
			if slices.ContainsFunc(w.turns[one], func(u turn) bool { return u.covers(v) }) {
				require.Equal(t, []string{one}, holders, "this one held all the time: %+v", q)
				sure[c.path]++
			}
		}
	}
}

func workerName(path string, number int) string { return fmt.Sprintf("%s-%d", path, number) }
