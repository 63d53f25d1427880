package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

// grant is a fake contender.
type grant struct {
	until    atomic.Pointer[time.Time]
	released atomic.Int32
	lapsed   atomic.Int32
	checks   atomic.Int32
	err      error
	mu       sync.Mutex
	warnings map[time.Duration]func() // by lead
}

func newGrant(d time.Duration) *grant {
	g := &grant{warnings: map[time.Duration]func(){}}
	g.extend(d)
	return g
}

func (g *grant) extend(d time.Duration) {
	until := time.Now().Add(d)
	g.until.Store(&until)
}

func (g *grant) Path() string             { return "/app/lock/_c_x-lock-0000000000" }
func (g *grant) Token() zkrecipes.Token   { return 7 }
func (g *grant) ValidUntil() time.Time    { return *g.until.Load() }
func (g *grant) Revoked() <-chan struct{} { return nil }
func (g *grant) Txn(context.Context, ...zkrecipes.Op) ([]zkrecipes.OpResult, error) {
	return []zkrecipes.OpResult{{}}, nil
}

func (g *grant) Check(context.Context) error {
	g.checks.Add(1)
	return nil
}

func (g *grant) OnExpiring(lead time.Duration, f func()) (stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.warnings[lead] = f
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.warnings, lead)
	}
}

func (g *grant) registered() []time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.warnings))
}

func (g *grant) warn(lead time.Duration) {
	g.mu.Lock()
	f := g.warnings[lead]
	g.mu.Unlock()
	f()
}

func (g *grant) Release(context.Context) error {
	g.released.Add(1)
	return g.err
}

func (g *grant) Lapse(time.Time) { g.lapsed.Add(1) }
func (g *grant) Value(any) any   { return nil }

func TestHold_EndsOnce(t *testing.T) {
	lost := &zkrecipes.LostError{Reason: zkrecipes.LossExpired, Path: "/x"}
	for name, c := range map[string]struct {
		end  func(h *zkrecipes.Hold, lose func(*zkrecipes.LostError))
		want error
	}{
		"released, then lost": {func(h *zkrecipes.Hold, lose func(*zkrecipes.LostError)) {
			require.NoError(t, h.Release(t.Context()))
			lose(lost)
		}, zkrecipes.ErrReleased},
		"lost, then released": {func(h *zkrecipes.Hold, lose func(*zkrecipes.LostError)) {
			lose(lost)
			lose(&zkrecipes.LostError{Reason: zkrecipes.LossClosed})
			require.Equal(t, error(lost), h.Release(t.Context()))
		}, lost},
	} {
		t.Run(name, func(t *testing.T) {
			h, lose := zkrecipes.NewHold(t.Context(), newGrant(time.Hour))
			require.NoError(t, h.Err())
			require.NoError(t, h.Context().Err())
			require.NoError(t, h.Check(t.Context()))
			c.end(h, lose)
			<-h.Done()
			require.Equal(t, c.want, h.Err())
			require.Equal(t, c.want, context.Cause(h.Context()))
			require.Equal(t, context.Canceled, h.Context().Err())
			require.Equal(t, c.want, h.Check(t.Context()))
			_, err := h.Txn(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrFenced)
			require.ErrorIs(t, err, c.want)
		})
	}
}

// TestHold_String checks that a log line names what is held, or why it is no longer held.
func TestHold_String(t *testing.T) {
	g := newGrant(time.Hour)
	h, lose := zkrecipes.NewHold(t.Context(), g)
	require.Equal(t, fmt.Sprintf("%s (token 7): held since %s", g.Path(), h.Since().Format(time.RFC3339)), h.String())
	lose(&zkrecipes.LostError{Reason: zkrecipes.LossExpired, Path: g.Path()})
	require.Equal(t, g.Path()+" (token 7): lost (expired)", h.String())
	h, _ = zkrecipes.NewHold(t.Context(), g)
	require.NoError(t, h.Release(t.Context()))
	require.Equal(t, g.Path()+" (token 7): released", h.String())
}

// When two goroutines report a loss, each sees the hold ended as soon as its own call returns.
func TestHold_LostByTwo_BothFindItEnded(t *testing.T) {
	for range 2000 {
		h, lose := zkrecipes.NewHold(t.Context(), newGrant(time.Hour))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				lose(&zkrecipes.LostError{Reason: zkrecipes.LossExpired})
				assert.ErrorIs(t, h.Err(), zkrecipes.ErrLost)
				assert.ErrorIs(t, context.Cause(h.Context()), zkrecipes.ErrLost)
			})
		}
		wg.Wait()
	}
}

// No timer fires here, as in a process that was frozen: the first call ends the hold.
func TestHold_LooksAtTheClock(t *testing.T) {
	for name, ask := range map[string]func(h *zkrecipes.Hold) error{
		"Err":                  func(h *zkrecipes.Hold) error { return h.Err() },
		"Check":                func(h *zkrecipes.Hold) error { return h.Check(t.Context()) },
		"Release":              func(h *zkrecipes.Hold) error { return h.Release(t.Context()) },
		"cause of its context": func(h *zkrecipes.Hold) error { return context.Cause(h.Context()) },
		"cause of a child": func(h *zkrecipes.Hold) error {
			return context.Cause(context.WithValue(h.Context(), key{}, 1))
		},
		"error of its context":  func(h *zkrecipes.Hold) error { _ = h.Context().Err(); return context.Cause(h.Context()) },
		"done of its context":   func(h *zkrecipes.Hold) error { <-h.Context().Done(); return context.Cause(h.Context()) },
		"a context made of its": func(h *zkrecipes.Hold) error { return cause(context.WithCancel(h.Context())) },
		"Done":                  func(h *zkrecipes.Hold) error { <-h.Done(); return h.Err() },
		"Txn": func(h *zkrecipes.Hold) error {
			_, err := h.Txn(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrFenced)
			return h.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGrant(time.Second)
				h, _ := zkrecipes.NewHold(t.Context(), g)
				until := g.ValidUntil()
				time.Sleep(3 * time.Second) // noticed late
				err := ask(h)
				require.Equal(t, &zkrecipes.LostError{Reason: zkrecipes.LossDeadline, Path: g.Path(), At: until}, err)
				g.extend(time.Hour)
				require.ErrorIs(t, h.Err(), zkrecipes.ErrLost, "never regained")
				require.EqualValues(t, 1, g.lapsed.Load(), "the hold ends its grant itself")
			})
		})
	}
}

type key struct{}

func cause(ctx context.Context, cancel context.CancelFunc) error {
	defer cancel()
	return context.Cause(ctx)
}

func TestHold_DeadlineMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrant(time.Second)
		h, _ := zkrecipes.NewHold(t.Context(), g)
		for range 10 {
			time.Sleep(900 * time.Millisecond)
			require.NoError(t, h.Err())
			g.extend(time.Second)
		}
	})
}

// The context of a hold has the values of the acquisition's context, but neither its cancellation nor its deadline.
func TestHold_Context(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Hour)
	h, _ := zkrecipes.NewHold(ctx, newGrant(time.Hour))
	cancel()
	require.NoError(t, h.Context().Err())
	require.Equal(t, "value", h.Context().Value(key{}))
	_, has := h.Context().Deadline()
	require.False(t, has)
	child, stop := context.WithCancel(h.Context())
	defer stop()
	require.NoError(t, h.Release(t.Context()))
	<-child.Done()
	require.Equal(t, zkrecipes.ErrReleased, context.Cause(child))
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestHold_Since_IsTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		granted := time.Now()
		h, lose := zkrecipes.NewHold(t.Context(), newGrant(time.Hour))
		time.Sleep(time.Minute)
		lose(&zkrecipes.LostError{Reason: zkrecipes.LossExpired})
		require.Equal(t, granted, h.Since())
	})
}

func TestHold_Expiring_OneChannelPerLeadUntilItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrant(time.Hour)
		h, _ := zkrecipes.NewHold(t.Context(), g)
		short, long := h.Expiring(time.Second), h.Expiring(time.Minute)
		require.Equal(t, short, h.Expiring(time.Second), "a loop may ask in every round")
		g.warn(time.Minute)
		synctest.Wait()
		require.True(t, closed(long))
		require.False(t, closed(short))
		require.Equal(t, []time.Duration{time.Second}, g.registered())
		again := h.Expiring(time.Minute)
		require.False(t, closed(again), "the deadline has moved on")
		g.warn(time.Minute)
		require.True(t, closed(again))
	})
}

// If the deadline has advanced since the warning and the caller calls Expiring again at once, it gets a channel for the
// next warning, which stays the same until then.
func TestHold_Expiring_AskedAgainAtOnce(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			g := newGrant(time.Hour)
			h, _ := zkrecipes.NewHold(t.Context(), g)
			h.Expiring(time.Minute)
			g.warn(time.Minute)
			again := h.Expiring(time.Minute)
			require.False(t, closed(again))
			synctest.Wait()
			require.Equal(t, again, h.Expiring(time.Minute))
		})
	}
}

// A caller may compute a different lead in every iteration.
func TestHold_Expiring_WarningsThatWereGiven_TakeNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrant(time.Hour)
		h, _ := zkrecipes.NewHold(t.Context(), g)
		heap := func() int64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := heap()
		for i := range 20_000 {
			lead := time.Minute + time.Duration(i)
			warning := h.Expiring(lead)
			g.warn(lead)
			require.True(t, closed(warning))
			synctest.Wait()
		}
		require.Less(t, heap()-before, int64(1<<20))
		require.NoError(t, h.Release(t.Context()))
	})
}

func TestHold_Expiring_LooksAtTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGrant(time.Minute)
		h, _ := zkrecipes.NewHold(t.Context(), g)
		before := h.Expiring(time.Second)
		time.Sleep(59*time.Second - time.Nanosecond)
		require.False(t, closed(h.Expiring(time.Second)))
		time.Sleep(time.Nanosecond)
		require.True(t, closed(h.Expiring(time.Second)), "no timer has fired here")
		require.True(t, closed(before))
		require.NoError(t, h.Err())
		require.True(t, closed(h.Expiring(time.Hour)))
		time.Sleep(time.Second)
		require.True(t, closed(h.Expiring(1)))
		require.ErrorIs(t, h.Err(), zkrecipes.ErrLost)
	})
}

func TestHold_Expiring_EndsWithTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, end := range []func(*zkrecipes.Hold, func(*zkrecipes.LostError)){
			func(h *zkrecipes.Hold, _ func(*zkrecipes.LostError)) { require.NoError(t, h.Release(t.Context())) },
			func(_ *zkrecipes.Hold, lose func(*zkrecipes.LostError)) {
				lose(&zkrecipes.LostError{Reason: zkrecipes.LossExpired})
			},
		} {
			g := newGrant(time.Hour)
			h, lose := zkrecipes.NewHold(t.Context(), g)
			warning, none, negative := h.Expiring(time.Second), h.Expiring(0), h.Expiring(-time.Second)
			require.Equal(t, []time.Duration{time.Second}, g.registered(), "a lead of 0 or less is no warning")
			require.False(t, closed(warning) || closed(none) || closed(negative))
			end(h, lose)
			require.True(t, closed(warning) && closed(none) && closed(negative))
			require.True(t, closed(h.Expiring(time.Second)))
			synctest.Wait()
			require.Empty(t, g.registered(), "nothing is left behind")
		}
	})
}

func TestHold_ReleaseIsRepeatable(t *testing.T) {
	g := newGrant(time.Hour)
	g.err = errors.New("the removal goes on")
	h, _ := zkrecipes.NewHold(t.Context(), g)
	require.Equal(t, g.err, h.Release(t.Context()))
	g.err = nil
	require.NoError(t, h.Release(t.Context()))
	require.EqualValues(t, 2, g.released.Load())
}

func TestErrors_Say(t *testing.T) {
	holder := zkrecipes.Participant{
		Path: "/l/x", Data: []byte("db1/77"), Name: "db1/77", Session: 0x1f, Token: 12,
		Since: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
	unnamed := holder
	unnamed.Data, unnamed.Name = nil, "" // as Curator's LeaderLatch without an id
	asked := holder
	asked.Data, asked.Name = []byte("__REVOKE__"), "" // the request replaces the name
	binary := holder
	binary.Data, binary.Name = append([]byte{0xff}, make([]byte, 100)...), ""
	long := holder
	long.Name = "x" + strings.Repeat("é", 100) // the limit is in the middle of a letter
	long.Data = []byte(long.Name)
	ghost := holder
	ghost.Session = 0
	for want, err := range map[string]error{
		`/l: held by another contender: ` +
			`"db1/77" (session 0x1f, token 12, since 2026-03-01T12:00:00Z), 3 in the queue`: &zkrecipes.BusyError{
			Path: "/l", Holder: holder, Queue: 3,
		},
		`/l: gave up at place 2: ` +
			`held by "db1/77" (session 0x1f, token 12, ` +
			`since 2026-03-01T12:00:00Z), 3 in the queue: context canceled`: &zkrecipes.WaitError{
			Path: "/l", Position: 2, Queue: 3, Holder: holder, Err: context.Canceled,
		},
		`/l: held by another contender: "\xff` + strings.Repeat(`\x00`, 63) +
			`" (session 0x1f, token 12, since 2026-03-01T12:00:00Z), 1 in the queue`: &zkrecipes.BusyError{
			Path: "/l", Holder: binary, Queue: 1,
		},
		`/l: held by another contender: "x` + strings.Repeat("é", 31) +
			`" (session 0x1f, token 12, since 2026-03-01T12:00:00Z), 1 in the queue`: &zkrecipes.BusyError{
			Path: "/l", Holder: long, Queue: 1,
		},
		`/l: held by another contender: ` +
			`unnamed (session 0x1f, token 12, since 2026-03-01T12:00:00Z), 1 in the queue`: &zkrecipes.BusyError{
			Path: "/l", Holder: unnamed, Queue: 1,
		},
		`/l: held by another contender: ` +
			`"db1/77" (not ephemeral: it stays when its process ends, token 12, ` +
			`since 2026-03-01T12:00:00Z), 1 in the queue`: &zkrecipes.BusyError{
			Path: "/l", Holder: ghost, Queue: 1,
		},
		`/l: gave up at place 2: ` +
			`held by a contender that was asked to release (session 0x1f, token 12, ` +
			`since 2026-03-01T12:00:00Z), 3 in the queue: context canceled`: &zkrecipes.WaitError{
			Path: "/l", Position: 2, Queue: 3, Holder: asked, Err: context.Canceled,
		},
		`/n: taken by another session: ` +
			`0x1f (czxid 0xc, data "db1/77"): the node is removed when that session ends`: &zkrecipes.TakenError{
			Path: "/n", Session: 0x1f, Czxid: 12, Data: []byte("db1/77"),
		},
		`/l: held by another contender: 2 in the queue`: &zkrecipes.BusyError{Path: "/l", Queue: 2},
		`/l: gave up at place 2: 3 in the queue: context canceled`: &zkrecipes.WaitError{
			Path: "/l", Position: 2, Queue: 3,
			Err: context.Canceled,
		},
		`/n: taken by a node that is not ephemeral ` +
			`(czxid 0x7): delete it if nothing needs it`: &zkrecipes.TakenError{
			Path: "/n", Czxid: 7,
		},
		`/l: gave up without a place in the queue: context canceled`: &zkrecipes.WaitError{Path: "/l", Err: context.Canceled},
		`/l/x: lost (node-deleted)`: &zkrecipes.LostError{
			Path:   "/l/x",
			Reason: zkrecipes.LossNodeDeleted,
		},
		`session: lost (closed): client closed`: &zkrecipes.LostError{
			Reason: zkrecipes.LossClosed,
			Err:    zkrecipes.ErrClosed,
		},
		`get /n: zk: node does not exist`: &zkrecipes.OpError{Op: "get", Path: "/n", Err: zk.ErrNoNode},
		`get /n: <nil>`:                   &zkrecipes.OpError{Op: "get", Path: "/n"},
	} {
		require.EqualError(t, err, want)
	}
	require.ErrorIs(t, &zkrecipes.BusyError{}, zkrecipes.ErrLocked)
	require.ErrorIs(t, &zkrecipes.LostError{}, zkrecipes.ErrLost)
	require.ErrorIs(t, &zkrecipes.WaitError{Err: context.Canceled}, context.Canceled)
	require.ErrorIs(t, &zkrecipes.TakenError{}, zkrecipes.ErrTaken)
	require.NotErrorIs(t, &zkrecipes.TakenError{}, zkrecipes.ErrLocked)
	require.NotErrorIs(t, &zkrecipes.BusyError{}, zkrecipes.ErrLost)
	require.NotErrorIs(t, &zkrecipes.LostError{}, zkrecipes.ErrLocked)
}

func TestHold_Ended_ChecksWithoutARequest(t *testing.T) {
	g := newGrant(time.Hour)
	h, _ := zkrecipes.NewHold(t.Context(), g)
	require.NoError(t, h.Check(t.Context()))
	require.EqualValues(t, 1, g.checks.Load())
	require.NoError(t, h.Release(t.Context()))
	require.ErrorIs(t, h.Check(t.Context()), zkrecipes.ErrReleased)
	require.EqualValues(t, 1, g.checks.Load())
}
