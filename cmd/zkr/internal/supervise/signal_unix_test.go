//go:build unix

package supervise

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/signals"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestSignal_BetweenGrantAndStart puts the signal where no test can time it: into the channel, after the context has
// ended.
func TestSignal_BetweenGrantAndStart(t *testing.T) {
	arrived := make(chan os.Signal, 2)
	arrived <- syscall.SIGWINCH
	arrived <- syscall.SIGTERM
	s := &supervision{program: &Program{Arrived: arrived}}
	err := (&Runner{}).start(context.WithoutCancel(t.Context()), s, nil)
	code, message := exit.Status(err)
	assert.Equal(t, 143, code)
	assert.Empty(t, message)
}

// TestSignal_BeforeOneOfSeveralStarts: signals that are passed on to all programs do not keep one of them from
// starting.
func TestSignal_BeforeOneOfSeveralStarts(t *testing.T) {
	arrived, asked := make(chan os.Signal, 2), make(chan struct{})
	arrived <- syscall.SIGHUP
	arrived <- syscall.SIGUSR1
	s := &supervision{program: &Program{Arrived: arrived}, asked: asked}
	assert.NoError(t, s.stoppedBefore(t.Context()))
	assert.Empty(t, arrived)
}

// TestSignal_AtTheEndOfAWait: a signal that arrives together with the end of a wait is either reported or left for the
// next wait.
func TestSignal_AtTheEndOfAWait(t *testing.T) {
	client, err := conn.Dial(t.Context(), zktest.Run(t).Addr())
	require.NoError(t, err)
	defer client.Close()
	arrived := make(chan os.Signal, 1)
	r := &Runner{options: Options{Grace: -1, Lead: -1}, client: client, signals: &signals.Signals{Arrived: arrived}}
	for name, wait := range map[string]func() error{
		"between two terms": func() error { return r.sleep(t.Context(), 0) },
		"for a session": func() error {
			_, err := r.Ready(t.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 1000 {
				arrived <- syscall.SIGTERM
				var stop *exit.Stopped
				if err := wait(); err != nil {
					require.ErrorAs(t, err, &stop)
					continue
				}
				require.Len(t, arrived, 1)
				<-arrived
			}
		})
	}
}

// TestSignal_AfterAReload: a signal counts as one with the last if that asked zkr to stop. After a SIGHUP that only asked
// the program to reload, SIGTERM is news, however soon it comes.
func TestSignal_AfterAReload(t *testing.T) {
	for name, c := range map[string]struct {
		end  Ending
		one  os.Signal
		ends bool
	}{
		"a second SIGTERM":   {Ending{Asked: true}, syscall.SIGTERM, false},
		"a second SIGHUP":    {Ending{Asked: true, Reload: true}, syscall.SIGHUP, false},
		"SIGTERM and reload": {Ending{Asked: true, Reload: true}, syscall.SIGTERM, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &Runner{signals: &signals.Signals{Arrived: make(chan os.Signal)}}
				c.end.last = time.Now()
				ctx, done := r.contextAfter(t.Context(), c.end)
				r.signals.Arrived <- c.one
				synctest.Wait()
				assert.Equal(t, c.ends, ctx.Err() != nil)
				done()
			})
		})
	}
}

// TestSignal_TogetherWithTheEndOfTheProgram: whoever asks zkr and its program to stop at the same time has asked zkr, even
// if it has not run in between.
func TestSignal_TogetherWithTheEndOfTheProgram(t *testing.T) {
	host, err := child.NewHost()
	require.NoError(t, err)
	defer host.Close()
	for range 20 {
		c := guarded(t, host, "/bin/true")
		until := time.Now().Add(time.Hour)
		arrived := make(chan os.Signal, 1)
		s := &supervision{
			options: Options{OnLoss: "kill", Leftovers: "kill"}, child: c, target: &Target{Paths: []string{"/l"}},
			program: &Program{Arrived: arrived}, status: func() conn.Status { return conn.Status{} },
			timeout: 100 * time.Second, grant: &Grant{hold: &fixedHold{until: until}}, told: until, late: &lateness{},
		}
		s.events, err = newEvents(slog.New(slog.DiscardHandler), -1)
		require.NoError(t, err)
		s.late.events = s.events
		s.state, err = newStateFile()
		require.NoError(t, err)
		s.deadline, err = newDeadline(s.timeout, 40*time.Second, time.Second)
		require.NoError(t, err)
		<-c.Done()
		arrived <- syscall.SIGTERM
		require.True(t, s.run().Asked)
		s.events.close()
	}
}

// TestMinHold_AfterAReload: a SIGHUP that only asked the program to reload does not shorten --min-hold.
func TestMinHold_AfterAReload(t *testing.T) {
	for end, want := range map[Ending]time.Duration{
		{}:                          time.Minute,
		{Asked: true}:               0,
		{Asked: true, Reload: true}: time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			r, granted := &Runner{options: Options{MinHold: time.Minute}}, time.Now()
			r.holdOn(t.Context(), &Grant{hold: &fixedHold{}}, granted, end)
			assert.Equal(t, want, time.Since(granted), "%+v", end)
		})
	}
}
