//go:build unix

package supervise

import (
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/bootclock"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == child.GuardArg {
		child.Guard(os.Args[2:], bootclock.Now)
		return
	}
	os.Exit(m.Run())
}

// The node was deleted after the grant and before the program was started, for example by zkr break while --once waited
// for an answer. The deadline is that of the session, so the program was started all the same.
func TestStart_LostMeanwhile_StartsNothing(t *testing.T) {
	srv := zktest.Run(t)
	client, err := conn.Dial(t.Context(), srv.Addr())
	require.NoError(t, err)
	defer client.Close()
	m, err := mutex.New(client, "/l")
	require.NoError(t, err)
	grant, err := Single(m.Lock(t.Context()))
	require.NoError(t, err)
	require.NoError(t, srv.Delete(grant.parts[0].Path()))
	<-grant.Done()
	err = (&Runner{}).start(t.Context(), &supervision{program: &Program{}, grant: grant}, nil)
	require.ErrorIs(t, err, zkrecipes.ErrLost)
}

// fixedHold is a hold that has not ended.
type fixedHold struct {
	hold
	until time.Time
}

func (h *fixedHold) ValidUntil() time.Time { return h.until }
func (h *fixedHold) Err() error            { return nil }
func (h *fixedHold) Done() <-chan struct{} { return nil }

// guarded starts a program under a guard that kills it after an hour.
func guarded(t *testing.T, host *child.Host, args ...string) *child.Child {
	t.Helper()
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close() //nolint:errcheck // read-only
	c, err := host.Start(child.Command{
		Path: args[0], Args: args, Env: os.Environ(), Files: []*os.File{null, os.Stdout, os.Stderr},
		KillAt: bootclock.Now() + time.Hour,
	})
	require.NoError(t, err)
	return c
}

// The deadline moved back while the program was being stopped, and the guard kept the old one: had zkr been stopped as
// well, the program would have outlived the lock.
func TestObeyLoss_DeadlineMovesWhileStopping_GuardLearnsOfIt(t *testing.T) {
	host, err := child.NewHost()
	require.NoError(t, err)
	defer host.Close()
	c := guarded(t, host, "/bin/sleep", "300")
	s := &supervision{
		options: Options{OnLoss: "kill"}, child: c, target: &Target{Paths: []string{"/l"}}, program: &Program{},
		status: func() conn.Status { return conn.Status{} }, timeout: 100 * time.Second,
		stopAt: time.Now(), end: Ending{Lost: true}, // it has been asked to stop
	}
	s.events, err = newEvents(slog.New(slog.DiscardHandler), -1)
	require.NoError(t, err)
	s.deadline, err = newDeadline(s.timeout, 40*time.Second, time.Second)
	require.NoError(t, err)
	now := time.Now()
	s.grant = &Grant{hold: &fixedHold{until: now.Add(3 * time.Second)}}
	s.obeyLoss(now)
	<-c.Done()
	assert.True(t, c.Status().Overdue)
	c.Close()
}

// On a busy machine the guard may report the end of the program late. zkr then said that 0 processes were still running,
// and an elected program was not started again.
func TestOver_TheReportOfTheEndIsLate(t *testing.T) {
	host, err := child.NewHost()
	require.NoError(t, err)
	defer host.Close()
	c := guarded(t, host, "/bin/sleep", "300")
	require.NoError(t, syscall.Kill(c.Group(), syscall.SIGSTOP))
	require.NoError(t, syscall.Kill(c.Pid(), syscall.SIGKILL))
	for c.Left() > 0 {
		time.Sleep(time.Millisecond)
	}
	s := &supervision{
		child: c, target: &Target{}, killed: time.Now().Add(-time.Minute), deadline: &deadline{until: time.Now()},
	}
	s.events, err = newEvents(slog.New(slog.DiscardHandler), -1)
	require.NoError(t, err)
	assert.False(t, s.over())
	require.NoError(t, syscall.Kill(c.Group(), syscall.SIGCONT))
	<-c.Done()
	s.ended = time.Now()
	assert.True(t, s.over())
	assert.False(t, s.end.Unfinished)
	c.Close()
}
