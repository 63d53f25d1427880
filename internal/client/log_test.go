package client_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// capture is a log handler that keeps records from a given level on.
type capture struct {
	from  slog.Level
	lines *trial.Log[string]
}

func newCapture(from slog.Level) capture { return capture{from, &trial.Log[string]{}} }

func (c capture) Enabled(_ context.Context, level slog.Level) bool { return level >= c.from }
func (c capture) WithAttrs([]slog.Attr) slog.Handler               { panic("not used") }
func (c capture) WithGroup(string) slog.Handler                    { panic("not used") }

func (c capture) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	c.lines.Add(line)
	return nil
}

// written returns what has been logged so far, with server and session as words.
func (c capture) written(srv *zktest.Server, session int64) []string {
	synctest.Wait()
	names := strings.NewReplacer(srv.Addr(), "SERVER", fmt.Sprintf("0x%x", session), "SESSION")
	var lines []string
	for _, line := range c.lines.Values() {
		lines = append(lines, names.Replace(line))
	}
	return lines
}

var brokenPipe = regexp.MustCompile(`write tcp \S+: broken pipe`)

func TestLog_ThroughAnOutage(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		out := newCapture(slog.LevelInfo)
		board := trial.NewSwitchboard(srv.DialAs(trial.Label))
		c := trial.Dial(t, srv, conn.WithDialer(board.Dial), trial.EverySecond, conn.WithLogger(slog.New(out)),
			conn.WithAuth("digest", "user:secret"))
		s := trial.Live(t, c)
		trial.Held(t, s)
		time.Sleep(5 * time.Second)
		synctest.Wait() // a sync is due at this moment
		board.Connect(trial.Refuse)
		left := time.Until(s.ValidUntil()).Round(time.Millisecond)
		srv.Cut(trial.Ours)
		time.Sleep(4*time.Second + time.Millisecond)
		board.Connect(srv.DialAs(trial.Label))
		time.Sleep(time.Minute)
		srv.Expire(s.ID())
		<-s.Done()
		next := trial.Live(t, c)
		time.Sleep(time.Second)
		require.NoError(t, c.Close())
		lines := out.written(srv, s.ID())
		for i := range lines {
			lines[i] = strings.ReplaceAll(lines[i], fmt.Sprintf("0x%x", next.ID()), "NEXT")
			// A request may find out first.
			lines[i] = brokenPipe.ReplaceAllString(lines[i], "the server closed the connection: EOF")
		}
		require.Equal(t, []string{
			"INFO zookeeper: connected server=SERVER session=SESSION timeout=10s was=connecting lasted=0s",
			"INFO zookeeper: suspended server=SERVER session=SESSION holds=1 left=" + left.String() +
				" error=the server closed the connection: EOF was=connected lasted=5s",
			"INFO zookeeper: cannot connect server=SERVER error=connection refused attempts=1 for=0s",
			"INFO zookeeper: cannot connect server=SERVER error=connection refused attempts=2 for=1s",
			"INFO zookeeper: cannot connect server=SERVER error=connection refused attempts=4 for=3s",
			"INFO zookeeper: connected server=SERVER session=SESSION timeout=10s was=suspended lasted=5s",
			"INFO zookeeper: suspended server=SERVER session=SESSION holds=1 left=5.954s error=the server closed the " +
				"connection: EOF was=connected lasted=59.001s",
			"WARN zookeeper: session lost server=SERVER session=SESSION reason=expired was=suspended lasted=0s",
			"INFO zookeeper: connected server=SERVER session=NEXT timeout=10s was=lost lasted=0s",
			"INFO zookeeper: closed server=SERVER session=NEXT reason=closed was=connected lasted=1s",
		}, lines)
		require.NotContains(t, strings.Join(lines, "\n"), "secret")
	})
}

// An outage of a day must neither fill the log nor leave it silent.
func TestLog_LongOutage_TellsWithGrowingDistance(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		out, all := newCapture(slog.LevelInfo), newCapture(slog.LevelDebug)
		try := func(h capture, patience time.Duration) {
			_, err := conn.Dial(trial.Within(t, patience), srv.Addr(), conn.WithDialer(trial.Refuse),
				conn.WithLogger(slog.New(h)), trial.EverySecond)
			require.ErrorIs(t, err, trial.ErrTooLong)
		}
		try(out, 6*time.Hour)
		try(all, 59*time.Second+time.Millisecond)
		var attempts []time.Duration
		start := out.lines.All()[0].At
		for _, e := range out.lines.All() {
			attempts = append(attempts, e.At.Sub(start))
		}
		require.Equal(t, []time.Duration{
			0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 31 * time.Second, 63 * time.Second,
			127 * time.Second,
			255 * time.Second, 511 * time.Second, 811 * time.Second, 1111 * time.Second,
		}, attempts[:12])
		require.Less(t, len(attempts), 6*12+12)
		lines := out.lines.Values()
		require.Contains(t, lines[11], "attempts=1112 for=18m31s")
		require.Equal(t, "INFO zookeeper: closed reason=closed was=connecting lasted=6h0m0s", lines[len(lines)-1])
		require.Len(t, slices.DeleteFunc(all.written(srv, 0), func(line string) bool {
			return !strings.HasPrefix(line, "DEBUG zookeeper: cannot connect server=SERVER error=connection refused attempts=")
		}), 60-6, "the others are Debug")
	})
}

// A server that rejects the credentials is logged like any other that grants no session.
func TestLog_CredentialsRefused(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		out := newCapture(slog.LevelDebug)
		_, err := conn.Dial(t.Context(), srv.Addr(), conn.WithDialer(srv.Dial), conn.WithLogger(slog.New(out)),
			conn.WithAuth("nonsense", "secret"))
		require.ErrorIs(t, err, zkrecipes.ErrAuthFailed)
		lines := out.written(srv, 0)
		require.Contains(t, lines[0], "INFO zookeeper: cannot connect server=SERVER error=credentials refused: ")
		require.Contains(t, lines[1], "INFO zookeeper: closed ", "once")
		require.NotContains(t, strings.Join(lines, "\n"), "secret")
	})
}

// A connection is accepted and gets no answer.
func TestLog_ServerThatDoesNotAnswer(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		out := newCapture(slog.LevelInfo)
		mute := func(context.Context, string, string) (net.Conn, error) { return trial.Silent(), nil }
		_, err := conn.Dial(trial.Within(t, 3*time.Second), srv.Addr(), conn.WithDialer(mute),
			conn.WithSessionTimeout(trial.Timeout), conn.WithLogger(slog.New(out)))
		require.ErrorIs(t, err, trial.ErrTooLong)
		require.Contains(t, out.written(srv, 0)[0],
			"cannot connect server=SERVER error=no session within 1.667s: "+
				"the server accepted the connection and did not answer attempts=1")
	})
}

func TestLog_SilentServer_SaysWhatWasMissed(t *testing.T) {
	for name, tt := range map[string]struct {
		hold bool
		says string
	}{
		"with a hold":    {true, "error=no answer to a sync for 2.5s: trying another server"},
		"without a hold": {false, "error=the server sent nothing for two thirds of the session timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				out := newCapture(slog.LevelInfo)
				c := trial.Dial(t, srv, conn.WithLogger(slog.New(out)))
				s := trial.Live(t, c)
				if tt.hold {
					trial.Held(t, s)
				}
				time.Sleep(time.Minute)
				srv.Stall(trial.Ours, zktest.Both)
				<-s.Done()
				lines := strings.Join(out.written(srv, s.ID()), "\n")
				require.Contains(t, lines, tt.says)
				require.Contains(t, lines, "error=no connection within 1.667s attempts=1")
				require.Contains(t, lines,
					"WARN zookeeper: session lost server=SERVER session=SESSION reason=deadline error=no answer for a whole session "+
						"timeout was=suspended lasted=")
				srv.Heal(trial.Ours)
			})
		})
	}
}

// A program that sets no logger still sees what happens.
func TestLog_WithoutALogger_GoesToTheDefault(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		out := newCapture(slog.LevelInfo)
		slog.SetDefault(slog.New(out))
		c, err := conn.Dial(t.Context(), srv.Addr(), conn.WithDialer(srv.Dial))
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Len(t, out.lines.All(), 2)
	})
}

// What remains of an old session is logged, with the servers on which it could not be closed.
func TestLog_OldSessionThatCannotBeClosed(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		out := newCapture(slog.LevelDebug)
		var connected atomic.Int32
		twice := func(ctx context.Context, network, address string) (net.Conn, error) {
			if connected.Load() == 2 { // once for each session, so that this one has to close the old one
				return trial.Refuse(ctx, network, address)
			}
			raw, err := srv.DialAs(trial.Label)(ctx, network, address)
			if err == nil {
				connected.Add(1)
			}
			return raw, err
		}
		c := trial.Dial(t, srv, conn.WithDialer(twice), conn.WithLogger(slog.New(out)))
		s := trial.Live(t, c)
		srv.Down()
		<-s.Done()
		srv.Up()
		trial.Live(t, c)
		require.Contains(t, out.written(srv, s.ID()),
			"DEBUG zookeeper: could not close an old session, its nodes remain until it expires "+
				"session=SESSION error=SERVER: connection refused")
	})
}

// If a server refuses what keeps the proof fresh, the log shows why.
func TestLog_ProofRefused(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		out := newCapture(slog.LevelDebug)
		c := trial.Dial(t, srv, conn.WithLogger(slog.New(out)))
		trial.Held(t, trial.Live(t, c))
		time.Sleep(trial.Timeout + time.Millisecond) // between two syncs
		for _, op := range []zktest.Op{zktest.OpSync, zktest.OpMulti} {
			srv.Intercept(zktest.Match{Op: op}, zktest.Fail(zktest.CodeThrottled))
		}
		trial.Reconnect(srv, c)
		time.Sleep(trial.Timeout / 2)
		var told []string
		for _, line := range out.written(srv, 0) {
			if strings.HasPrefix(line, "DEBUG") {
				told = append(told, line)
			}
		}
		require.Equal(t, []string{
			"DEBUG zookeeper: sync error=the server is throttling requests (-127)",
			"DEBUG zookeeper: barrier error=the server is throttling requests (-127)",
		}, told)
	})
}

// Parents are left behind on a server without containers, and the log reports it.
func TestLog_ServerWithoutContainers(t *testing.T) {
	for says, opt := range map[string]zktest.Option{
		"INFO zookeeper: the server does not support containers": zktest.WithoutContainers(),
		"WARN zookeeper: three connections in a row ended during createContainer: " +
			"": zktest.WithDeviations(zktest.HangsUpOnContainers),
	} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			out := newCapture(slog.LevelInfo)
			require.NoError(t,
				trial.Live(t, trial.Dial(t, srv, conn.WithLogger(slog.New(out)))).CreateContainer(t.Context(), "/a"))
			require.Contains(t, strings.Join(out.written(srv, 0), "\n"), says)
		}, opt)
	}
}

// A typing error in the connect string creates a second tree next to the first: two programs then hold one lock.
func TestLog_ChrootThatIsMade(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		out := newCapture(slog.LevelInfo)
		c := trial.DialTo(t, srv.Addr()+"/apps/mine", conn.WithDialer(srv.DialAs(trial.Label)),
			conn.WithLogger(slog.New(out)))
		require.NoError(t, c.CreateAll(t.Context(), "/config/a", nil))
		require.NoError(t, c.CreateAll(t.Context(), "/other/b", nil))
		made := slices.DeleteFunc(out.written(srv, 0), func(line string) bool { return !strings.Contains(line, "chroot") })
		require.Equal(t, []string{"INFO zookeeper: the chroot did not exist and was created path=/apps/mine"}, made)
	})
}

// A call that changes nothing is not logged.
func TestLog_ClosedTwice_IsToldOnce(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		out := newCapture(slog.LevelInfo)
		c := trial.Dial(t, srv, conn.WithLogger(slog.New(out)))
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		require.Len(t, out.written(srv, 0), 2, "connected and closed")
	})
}
