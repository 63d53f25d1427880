package zkkerberos

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
)

// fakeCenter issues tickets that are valid for an hour, after a second, unless it has an error.
type fakeCenter struct {
	mu    sync.Mutex
	ended bool            // all tickets have ended
	until time.Time       // when all tickets end; zero means in an hour
	asked []time.Duration // since the start
	err   error
	start time.Time
}

func (c *fakeCenter) ask(principal) (*ticket, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, time.Since(c.start))
	time.Sleep(time.Second)
	got := fakeTicket()
	if c.ended {
		got.end = time.Now()
	}
	if !c.until.IsZero() {
		got.end = c.until
	}
	return got, c.err
}

// questions returns the times at which the center was queried.
func (c *fakeCenter) questions() []time.Duration {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

// cache makes the tickets end with that of kinit, which is never renewed, or was renewed until then.
func (c *fakeCenter) cache(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = until
}

func (c *fakeCenter) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func withTickets(t *testing.T, test func(t *testing.T, c *fakeCenter, ts *tickets, log *bubble.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCenter{start: time.Now()}
		var log bubble.Buffer
		ts := newTickets(c.ask, slog.New(slog.NewTextHandler(&log, nil)))
		test(t, c, ts, &log)
		ts.close()
		_, err := ts.to(t.Context(), zk1)
		require.ErrorIs(t, err, ErrClosed)
		synctest.Wait()
	})
}

// Concurrent callers share a query. Its ticket is used until it ends, and renewed before that.
func TestTickets_AreSharedAndRenewed(t *testing.T) {
	withTickets(t, func(t *testing.T, c *fakeCenter, ts *tickets, log *bubble.Buffer) {
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				_, err := ts.to(t.Context(), zk1)
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Equal(t, []time.Duration{0}, c.questions())
		time.Sleep(10 * time.Hour)
		asked := c.questions()
		require.Len(t, asked, 13)
		for i := range len(asked) - 1 {
			require.InDelta(t, float64(48*time.Minute), float64(asked[i+1]-asked[i]), float64(2*time.Second))
		}
		got, err := ts.to(t.Context(), zk1)
		require.NoError(t, err)
		require.Greater(t, time.Until(got.end), 11*time.Minute)
		require.Empty(t, log.String())
	})
}

// While no center answers, the old ticket is used until it ends. The pauses get shorter, and the log warns.
func TestTickets_NoCenterAnswers(t *testing.T) {
	withTickets(t, func(t *testing.T, c *fakeCenter, ts *tickets, log *bubble.Buffer) {
		first, err := ts.to(t.Context(), zk1)
		require.NoError(t, err)
		c.fail(errors.New("nobody is there"))
		time.Sleep(time.Until(first.end) - time.Millisecond)
		again, err := ts.to(t.Context(), zk1)
		require.NoError(t, err)
		require.Same(t, first, again)
		time.Sleep(time.Minute)
		require.Less(t, len(c.questions()), 10)
		require.Contains(t, log.String(), "cannot renew the ticket")
		_, err = ts.to(t.Context(), zk1)
		require.ErrorContains(t, err, "nobody is there")
		c.fail(nil)
		_, err = ts.to(t.Context(), zk1)
		require.NoError(t, err)
	})
}

// A ticket ends no later than that in the credential cache. If nothing renews the cache, each new ticket ends at the
// same time, which used to go unnoticed until a reconnect failed.
func TestTickets_CacheIsNotRenewed(t *testing.T) {
	withTickets(t, func(t *testing.T, c *fakeCenter, ts *tickets, log *bubble.Buffer) {
		const warning = "the new ticket for a server expires no later than the old one"
		end := time.Now().Add(10 * time.Hour)
		c.cache(end)
		_, err := ts.to(t.Context(), zk1)
		require.NoError(t, err)
		time.Sleep(8*time.Hour - time.Minute)
		c.questions()
		require.Empty(t, log.String())
		time.Sleep(2 * time.Minute)
		require.Len(t, c.questions(), 2)
		require.Equal(t, 1, strings.Count(log.String(), warning))
		require.Contains(t, log.String(), "server=zookeeper/zk1@TEST.LOCAL end=2000-01-01T10:00:00")
		c.cache(end.Add(10 * time.Hour))
		time.Sleep(2 * time.Hour)
		require.Len(t, c.questions(), 3)
		require.Equal(t, 1, strings.Count(log.String(), warning), "it was renewed")
		time.Sleep(20 * time.Hour)
		require.Less(t, len(c.questions()), 20)
		require.Less(t, strings.Count(log.String(), warning), 15)
	})
}

// A caller does not wait forever, and the next one finds the answer of the center.
func TestTickets_SlowCenter(t *testing.T) {
	withTickets(t, func(t *testing.T, c *fakeCenter, ts *tickets, _ *bubble.Buffer) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := ts.to(ctx, zk1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no answer from the key distribution center yet")
		time.Sleep(2 * time.Second)
		_, err = ts.to(ctx, zk1)
		require.NoError(t, err)
		require.Len(t, c.questions(), 1)
	})
}

// A ticket that a server has refused is not used again. One that was obtained since then stays.
func TestTickets_Refused(t *testing.T) {
	withTickets(t, func(t *testing.T, c *fakeCenter, ts *tickets, _ *bubble.Buffer) {
		first, err := ts.to(t.Context(), zk1)
		require.NoError(t, err)
		ts.drop(zk1, first)
		second, err := ts.to(t.Context(), zk1)
		require.NoError(t, err)
		require.NotSame(t, first, second)
		ts.drop(zk1, first)
		again, err := ts.to(t.Context(), zk1)
		require.NoError(t, err)
		require.Same(t, second, again)
		time.Sleep(time.Hour)
		require.Len(t, c.questions(), 3, "one timer renews it")
	})
}

// The clock of the center may be behind ours. A missing ticket is not valid.
func TestTickets_EndedAtOnce(t *testing.T) {
	withTickets(t, func(t *testing.T, c *fakeCenter, ts *tickets, log *bubble.Buffer) {
		c.ended = true
		got, err := ts.to(t.Context(), zk1)
		require.Nil(t, got)
		require.ErrorContains(t, err, "expired immediately")
		time.Sleep(time.Hour)
		require.Len(t, c.questions(), 1, "nothing is renewed")
		require.Empty(t, log.String())
	})
}
