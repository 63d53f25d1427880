package client_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// blocking is a log handler that writes nothing until it is released.
type blocking struct {
	slog.Handler
	free chan struct{}
}

func (b blocking) Handle(ctx context.Context, r slog.Record) error {
	<-b.free
	return b.Handler.Handle(ctx, r)
}

func (b blocking) WithAttrs(attrs []slog.Attr) slog.Handler {
	return blocking{b.Handler.WithAttrs(attrs), b.free}
}

func (b blocking) WithGroup(name string) slog.Handler {
	return blocking{b.Handler.WithGroup(name), b.free}
}

func newBlocking(text *bubble.Buffer) (log *slog.Logger, free func()) {
	b := blocking{slog.NewTextHandler(text, &slog.HandlerOptions{Level: slog.LevelDebug}), make(chan struct{})}
	return slog.New(b), sync.OnceFunc(func() { close(b.free) })
}

// Connections come and go, servers leave syncs unanswered, sessions end, and the log handler blocks.
func TestLogger_Blocks_HoldsNothingUp(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var text bubble.Buffer
		log, free := newBlocking(&text)
		defer free()
		c := trial.Dial(t, srv, conn.WithLogger(log))
		s := trial.Live(t, c)
		defer s.Retain()()
		losses := trial.OnLoss(t, s, false)
		time.Sleep(10 * time.Second)
		trial.Reconnect(srv, c)
		srv.Intercept(zktest.Match{Op: zktest.OpSync, Times: 1}, zktest.Ignore())
		time.Sleep(time.Minute)
		require.Empty(t, losses.All(), "the heartbeat goes on")
		require.Equal(t, zkrecipes.Connected, c.Status().State)

		trial.CutOff(srv, trial.Ours)
		synctest.Wait()
		until := s.ValidUntil()
		<-s.Done()
		require.Len(t, losses.All(), 1)
		require.Equal(t, until, losses.All()[0].At)
		srv.Accept(trial.Ours)
		require.NotEqual(t, s.ID(), trial.Live(t, c).ID())

		start := time.Now()
		require.NoError(t, c.Close())
		require.LessOrEqual(t, time.Since(start), 2*time.Second)
		free()
		synctest.Wait()
		var order []string
		for _, line := range []string{"connected", "suspended", "no answer to a sync", "session lost", "closed"} {
			order = append(order, fmt.Sprint(strings.Contains(text.String(), line)))
		}
		require.Equal(t, "true true true true true", strings.Join(order, " "))
	})
}

// A log that is too slow for its records reports how many it has dropped.
func TestLogger_TooSlow_SaysHowManyRecordsAreMissing(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var text bubble.Buffer
		log, free := newBlocking(&text)
		defer free()
		c := trial.Dial(t, srv, conn.WithLogger(log))
		for range 2000 {
			trial.Inner(c).Logger().With("a", 1).WithGroup("g").Warn("again", "b", 2)
		}
		free()
		synctest.Wait()
		trial.Inner(c).Logger().Info("after")
		synctest.Wait()
		require.Contains(t, text.String(), "dropped=")
		require.Contains(t, text.String(), "msg=again a=1 g.b=2")
		require.Contains(t, text.String(), "msg=after")
	})
}

// Close returns when the log is written.
func TestClose_WritesTheLog(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var text bubble.Buffer
		log, free := newBlocking(&text)
		c := trial.Dial(t, srv, conn.WithLogger(log))
		_, err := c.Create(t.Context(), "/a", nil, zk.FlagEphemeral)
		require.NoError(t, err)
		time.AfterFunc(500*time.Millisecond, free)
		require.NoError(t, c.Close())
		require.Contains(t, text.String(), `msg="zookeeper: closed"`)
	})
}

// Open, too, returns when the log is written, even if it fails before there is a session to close.
func TestOpen_NothingFound_WritesTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bubble.Buffer
		log, free := newBlocking(&text)
		defer free()
		time.AfterFunc(5*time.Second+500*time.Millisecond, free)
		life := lifetime.Config{SessionTimeout: trial.Timeout, Log: log}
		took := trial.After(func() {
			_, err := client.Open(t.Context(), &client.Config{
				Config: session.Config{Config: life}, Servers: []string{"zk1:2181"}, Lookup: (&names{}).lookup,
				Source: &client.Source{Name: "registry", Servers: func(context.Context) ([]string, error) {
					return nil, errNoName
				}},
			})
			require.ErrorIs(t, err, errNoName)
		})
		require.Equal(t, 5*time.Second+500*time.Millisecond, took)
		require.Contains(t, text.String(), "cannot look up the servers")
	})
}
